//! The words of English.

use super::*;

pub(super) const TERMS: Terms = &[
    (
        OVERRIDE,
        "ignore; ignores; ignoring; disregard; disregarding; forget; override; overrides; bypass; neglect; \
         do not follow; don't follow; stop following; pay no attention to; discard; set aside; do not obey; \
         don't obey; no longer follow; abandon; skip; drop",
    ),
    (
        PRIOR,
        "previous; previously; prior; above; earlier; preceding; foregoing; existing; original; initial; all; \
         any; your; other; former; past; every; old; before",
    ),
    (
        ORDERS,
        "instruction; instructions; prompt; prompts; rule; rules; guideline; guidelines; directive; directives; \
         directions; programming; constraints; restrictions; system message; limitations",
    ),
    (PROMPT | ORDERS, "system prompt; system prompts; initial prompt; hidden prompt; system instructions"),
    (
        PROMPT,
        "your configuration; your system message; your initial instructions; your instructions verbatim; \
         hidden instructions",
    ),
    (
        VOID,
        "no longer apply; no longer applies; no longer valid; are void; is void; null and void; are cancelled; \
         are canceled; superseded; have been replaced; have been updated; has been updated; have changed; \
         are disabled; is disabled; are suspended; do not apply; don't apply; are lifted; are revoked; \
         are outdated",
    ),
    (
        EVERYTHING,
        "everything above; everything before; everything you were told; everything you have been told; \
         all of the above; the above and; the above,; what you were told; what you have been told; \
         the text above; the words above; what was said before; everything you know; everything so far; \
         above this line; earlier context; page content; everything i said; all of that and; content above; \
         the message above; the question and",
    ),
    (
        AGENT,
        "ai; ai assistant; ai assistants; ai agent; ai agents; ai model; ai models; language model; \
         language models; llm; llms; chatgpt; gpt-4; gpt-5; claude; copilot; gemini; chatbot; ai system; \
         virtual assistant; ai bot; autonomous agent; autonomous agents",
    ),
    (ROLE, "assistant; assistants; agent; agents; model; models; bot; bots"),
    (
        ADDRESS,
        "attention; note to; note for; dear; hey; message to; message for; instructions to; instructions for; \
         instruction to; instruction for; if you are an; if you are a; if you're an; to any; to all; \
         addressed to; to you; notice to; hint for; reminder for; new instructions for; reading this; \
         processing this; who reads this; that reads this; summarizing this; summarising this; handling this; \
         parsing this",
    ),
    (
        ADDRESSED,
        "to the agent processing; to the assistant processing; dear assistant; dear agent; \
         note to the assistant; note to the model; note to the agent; instructions for the assistant; \
         instructions to the model; instructions for the model; instructions for the agent; \
         message to the assistant; message to the ai; to you, the assistant; to you, gpt*; if you are an ai; \
         if you are an ai assistant; if you are a language model; if you are an llm; attention ai; \
         attention assistant; agents reading this; assistants reading this; models reading this; hey chatgpt; \
         hey assistant",
    ),
    (
        NOW,
        "you are now; you're now; from now on; from this point; from this point forward; henceforth; act as; \
         pretend; pretend to be; pretend that you; roleplay as",
    ),
    (
        FREE,
        "unrestricted; without any rules; without rules; no rules; without restrictions; \
         without any restrictions; no restrictions; no limits; without limits; without guidelines; \
         no guidelines; not bound by; unfiltered; uncensored; no ethical; no longer bound; free of restrictions; \
         can do anything",
    ),
    (
        MODE,
        "developer mode; debug mode; maintenance mode; admin mode; god mode; unrestricted mode; root mode; \
         override mode",
    ),
    (ON, "is on; enabled; is enabled; activated; active; enter; activate; switch to; you are now in"),
    (JAILBREAK, "do anything now; dan mode; jailbreak mode; you are dan; you are now dan; now you are dan; jailbroken"),
    (
        SAFETY,
        "safety guidelines; safety filters; safety filter; safety rules; safety restrictions; guardrails; \
         content policy; content filters; safety checks; safeguards; all checks",
    ),
    (
        TASK,
        "your new task; your real task; the real task; your actual task; your task is now; \
         your new instructions; new instructions:; new instruction:; your new goal; your only task; \
         updated instructions:; correct next action; obey only; only obey; follow only; and instead; \
         real instructions",
    ),
    (
        CONCEAL,
        "do not tell; don't tell; never tell; do not mention; don't mention; never mention; do not inform; \
         don't inform; without informing; without telling; without notifying; without alerting; \
         do not reveal to; don't reveal to; do not reveal this; hide this from; hidden from; keep this from; \
         must not know; must not learn; must not be told; not be informed; do not notify; don't notify; \
         do not alert; keep it from; should not know; need not know; \
         not be aware; never inform; conceal this",
    ),
    (
        USER,
        "user; users; the user; the user's; human; the human; customer; the customer; operator; the operator; \
         the owner; your owner; supervisor",
    ),
    (
        UNASKED,
        "without confirmation; without asking; without approval; do not ask; don't ask; skip the approval; \
         skip the confirmation; skip all checks; no confirmation; without further confirmation; \
         without the user's consent; without review; without verification; has already confirmed; \
         already confirmed; already approved; has already approved; no need to confirm; approval step; \
         skip confirmation; without waiting for",
    ),
    (
        REVEAL,
        "reveal; print; repeat; show; output; display; tell me; what is; what was; what are; disclose; leak; \
         dump; recite; write out; share; give me",
    ),
    (
        SENSITIVE,
        "password; passwords; .env; .env file; environment variables; credentials; api key; \
         api keys; secret; secrets; token; tokens; access token; \
         access tokens; session cookie; cookies; customer data; contacts; personal data; credit card; \
         confidential; login codes; verification codes; bank details",
    ),
    (
        PRIVATE,
        "conversation history; chat history; the conversation so far; private key; private keys; id_rsa; \
         ~/.ssh*; contents of the .env; all passwords; all api keys; all customer records; all customer data; \
         customer records; customer list; the user's credentials; user's credentials; the user's last message; \
         user's data; user's emails; all incoming mails; all incoming emails; all emails; \
         /etc/passwd; the user's messages; all secrets; previous messages",
    ),
    (
        SEND,
        "send; forward; transfer; post; upload; email; mail; exfiltrate; submit; append; include; attach; pass; \
         fetch; open; transmit; deliver; copy; leak; encode; paste; collect",
    ),
    (
        MATTER,
        "mail; mails; e-mail; email; emails; message; messages; invoice; letter; ticket; reminder; draft; \
         version; order; never share; do not share; don't share; never send; do not send; don't send; quote; \
         edition; appointment; previous message; earlier message; previous mail; previous email",
    ),
    (
        TOOL,
        "tool; tools; function; functions; api; plugin; shell command; shell; command; commands; \
         following commands; payment function; payment tool; script",
    ),
    (CALL, "call; invoke; run; execute; use; trigger; call the tool; run the; executes; runs"),
    (
        ACT,
        "transfer; delete; approve; pay; wire; refund; cancel; create; grant; purchase; buy; close; recommend; \
         invite; rate; delete all; erase; carry out; carry them out; go ahead; proceed; issue; send the money; \
         execute; deploy; install; disable; do exactly",
    ),
    (
        MUST,
        "must; must now; must first; immediately; mandatory; you must; at once; always; required to; should now; \
         please; now",
    ),
    (
        BEFORE,
        "before answering; before you answer; before responding; before you respond; before you continue; \
         before continuing; before you can solve; before using this tool; before doing anything; \
         before you reply; before replying; before you can help; before you proceed; before calling",
    ),
    (
        AUTHORITY,
        "system override; admin override; administrator access granted; developers of your model; \
         i am your developer; i am your creator; your developers; message from the developers; \
         message from openai; message from anthropic; security notice to; as the administrator; \
         system administrator of; this is a system message; official instruction; root access granted; \
         override code",
    ),
    (
        MEMORY,
        "store this in your memory; save this in your memory; save this to your memory; in your memory; \
         to your memory; update your memory; all future conversations; all future sessions; every future; \
         remember for all; your long-term memory",
    ),
    (
        ANSWER,
        "when you summarize; when you summarise; when summarizing; when summarising; in your answer; \
         in your response; in your summary; your answer; your response; your summary; in your final answer",
    ),
    (SAY, "say; include; recommend; mention; write; state; tell; claim; answer; reply; respond; rate; append"),
    (
        ONLY,
        "reply only with; reply only; answer only with; respond only with; only reply with; exactly what this; \
         regardless of; answer without; nothing else; verbatim; word for word",
    ),
];
