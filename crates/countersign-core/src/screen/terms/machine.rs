//! What is the same in every language: markup of conversations, addresses, and words of rules in two simple codes.

use super::*;

pub(super) const TERMS: Terms = &[
    (PICTURE, "![*; <img"),
    (
        MARKUP,
        "<|im_start|>; <|im_end|>; <|system|>; <|user|>; <|assistant|>; <|endoftext|>; <|eot_id|>; \
         <|start_header_id|>; <|end_header_id|>; <|begin_of_text|>; <start_of_turn>; <end_of_turn>; [inst]; \
         [/inst]; <<sys>>; <</sys>>; <function_calls>; <tool_call>; </tool_call>; <tool_use>; <function_call>; \
         <tool_result>; <tool_response>; <invoke name=; <system>; </system>; <system_prompt>; </system_prompt>; \
         </user_message>; </user_input>; </untrusted*; ### system; ### instruction:; ### instructions:; \
         [system message]; [system prompt]; [system]; \"role\": \"system\"; \"role\":\"system\"; \
         'role': 'system'; \"tool_calls\":; begin system prompt",
    ),
    (
        FRAME,
        "<important>; </important>; <information>; </information>; <instructions>; human:; assistant:; \
         end of document; end of context; end of user input; end of data; [important]; <admin>",
    ),
    (PLACE, "http://; https://; @*; ftp://; webhook; wss://"),
    (UNSEEN, "<!--; display:none; display: none; font-size:0; font-size: 0; visibility:hidden; visibility: hidden"),
    (
        ROTATED,
        "vtaber; vafgehpgvba; vafgehpgvbaf; cerivbhf; cebzcg; flfgrz; qvfertneq; sbetrg; nffvfgnag; cnffjbeq; \
         erirny",
    ),
    (
        REVERSED,
        "erongi; noitcurtsni; snoitcurtsni; suoiverp; tpmorp; metsys; dragersid; tegrof; tnatsissa; drowssap; \
         laever",
    ),
];
