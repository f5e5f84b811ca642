//! The words of German.

use super::*;

pub(super) const TERMS: Terms = &[
    (
        OVERRIDE,
        "ignorier*; missacht*; vergiss; vergesst; vergessen sie; verwirf*; uberspring*; ubergeh*; umgeh*; \
         setze dich uber; befolge nicht; folge nicht; beachte nicht; achte nicht auf",
    ),
    (
        PRIOR,
        "vorherig*; bisherig*; fruher*; obig*; vorangegangen*; vorangehend*; vorig*; alle; allen; deine; deinen; \
         ihre; samtlich*; oben; ursprunglich*; bestehend*",
    ),
    (
        ORDERS,
        "anweisung*; instruktion*; regel; regeln; vorgabe; vorgaben; richtlinie*; befehle; weisung*; anordnung*; \
         einschrankungen; vorschriften",
    ),
    (PROMPT | ORDERS, "systemprompt*; system-prompt*; systemanweisung*; systemnachricht*"),
    (
        VOID,
        "gelten nicht mehr; gilt nicht mehr; sind ungultig; sind aufgehoben; nicht mehr gultig; wurden ersetzt; \
         wurden aktualisiert",
    ),
    (
        EVERYTHING,
        "alles, was dir; alles was dir; alles obige; alles bisherige; alles vorherige; alles, was oben; \
         was dir bisher; alles davor",
    ),
    (AGENT, "ki; ki-assistent*; ki-agent*; ki-modell*; ki-system*; sprachmodell*; kunstliche intelligenz"),
    (ROLE, "assistent; assistenten; agent; agenten; modell"),
    (
        ADDRESS,
        "hinweis an; an alle; an den; an die; nachricht an; anweisung an; liebe; lieber; achtung; falls du; \
         wenn du",
    ),
    (
        ADDRESSED,
        "an den ki-assistent*; an alle ki-agent*; hinweis an den ki-assistent*; wenn du eine ki; \
         falls du eine ki; wenn du ein sprachmodell; lieber assistent",
    ),
    (NOW, "du bist jetzt; du bist nun; ab jetzt; von nun an; ab sofort bist du; sie sind jetzt; tu so als"),
    (
        FREE,
        "ohne einschrankung*; ohne regeln; uneingeschrankt*; keine einschrankungen; keine regeln; \
         ohne beschrankung*",
    ),
    (MODE, "entwicklermodus; wartungsmodus; administratormodus"),
    (ON, "aktiviert; ist aktiv; wechsle in; aktiviere"),
    (SAFETY, "sicherheitsfilter*; sicherheitsregeln; sicherheitsrichtlinien; schutzmechanismen"),
    (TASK, "deine neue aufgabe; deine eigentliche aufgabe; deine wahre aufgabe; ihre neue aufgabe; neue anweisung:"),
    (
        CONCEAL,
        "nichts davon; nicht erwahnen; erwahne nicht; verschweig*; \
         ohne dem nutzer; ohne den nutzer zu; ohne es dem; heimlich; nichts erzahlen; \
         nichts verraten; darf nichts",
    ),
    (USER, "nutzer; nutzern; benutzer; benutzern; anwender; dem nutzer; dem benutzer; kunden; dem kunden"),
    (
        UNASKED,
        "ohne bestatigung; ohne ruckfrage; ohne nachfrage; ohne freigabe; ohne zustimmung; frage nicht nach; \
         die freigabe; ohne genehmigung",
    ),
    (REVEAL, "gib; gebe; zeige; zeig; nenne; verrate; wiederhole; drucke; ausgeben"),
    (SENSITIVE, "passwort; passworter; zugangsdaten; schlussel; geheimnis*; kundendaten; kontodaten"),
    (
        PRIVATE,
        "alle kundendaten; alle passworter; gesprachsverlauf*; chatverlauf*; private schlussel; \
         privaten schlussel; alle zugangsdaten",
    ),
    (
        SEND,
        "sende; senden; schicke; schicken; uberweise; weiterleiten; leite weiter; leite; lade hoch; hochladen; \
         ubermittle",
    ),
    (MATTER, "e-mail; mail; nachricht; rechnung; schreiben; fassung; entwurf; brief; fahrplan*"),
    (TOOL, "werkzeug; werkzeuge; funktion; befehl; befehle; folgenden befehle; schnittstelle"),
    (CALL, "ruf; rufe; rufen; fuhre; fuhrt; fuhren; benutze; verwende; starte"),
    (
        ACT,
        "uberweise; losche; loschen; genehmige; bezahle; zahle; storniere; erstelle; freigeben; antworte; \
         bestatige",
    ),
    (MUST, "musst; sofort; unverzuglich; immer; unbedingt; umgehend"),
    (BEFORE, "bevor du antwortest; bevor du fortfahrst; bevor sie antworten; vor der antwort"),
    (AUTHORITY, "ich bin dein entwickler; administratorzugriff; im namen des administrators"),
    (MEMORY, "merke dir fur alle; in deinem gedachtnis; fur alle zukunftigen gesprache"),
    (ONLY, "antworte nur; nur noch mit; ausschliesslich mit; wortwortlich; wort fur wort"),
];
