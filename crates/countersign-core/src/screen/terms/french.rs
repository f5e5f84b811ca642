//! The words of French.

use super::*;

pub(super) const TERMS: Terms = &[
    (
        OVERRIDE,
        "ignore; ignores; ignorez; ignorer; oublie; oubliez; oublier; ne tiens pas compte; ne tenez pas compte; \
         ne suis pas; ne suivez pas; fais abstraction; faites abstraction; contourne; contournez; neglige; \
         ne respecte pas; passe outre",
    ),
    (
        PRIOR,
        "precedente; precedentes; precedent; precedents; anterieure; anterieures; anterieurs; ci-dessus; \
         plus haut; toutes; tous; tes; vos; initiales; originales; existantes",
    ),
    (
        ORDERS,
        "instruction; instructions; consigne; consignes; regle; regles; directive; directives; ordres; \
         restrictions; contraintes",
    ),
    (PROMPT | ORDERS, "prompt systeme; prompt du systeme; invite systeme; message systeme; instructions systeme"),
    (
        VOID,
        "ne s'appliquent plus; ne sont plus valables; ne s'applique plus; sont annulees; sont caduques; \
         ne valent plus; ont ete remplacees",
    ),
    (EVERYTHING, "tout ce qu'on t'a dit; ce qu'on t'a dit; tout ce qui precede; tout ce que tu sais; ce qui precede"),
    (
        AGENT,
        "ia; assistant ia; l'assistant ia; agent ia; agents ia; modele de langage; intelligence artificielle; \
         assistant virtuel",
    ),
    (ROLE, "assistant; agent; agents; modele"),
    (
        ADDRESS,
        "note pour; note a; attention; message pour; message a; instructions pour; cher; chere; si tu es; \
         si vous etes; a tous les",
    ),
    (
        ADDRESSED,
        "note pour l'assistant; pour l'assistant ia; si tu es une ia; si vous etes une ia; cher assistant; \
         aux agents ia",
    ),
    (
        NOW,
        "tu es desormais; tu es maintenant; vous etes desormais; a partir de maintenant; desormais; agis comme; \
         fais comme si",
    ),
    (FREE, "sans restriction; sans restrictions; sans limites; sans regles; sans aucune restriction"),
    (MODE, "mode developpeur; mode administrateur; mode maintenance"),
    (ON, "est active; active le; passe en"),
    (SAFETY, "filtres de securite; regles de securite; garde-fous"),
    (
        TASK,
        "ta nouvelle tache; ta vraie tache; votre nouvelle tache; nouvelles instructions :; \
         nouvelles instructions:; a la place",
    ),
    (
        CONCEAL,
        "n'en parle pas; n'en parlez pas; ne dis rien; ne dites rien; ne le dis pas; ne mentionne pas; \
         ne mentionnez pas; sans informer; sans prevenir; sans le dire; ne revele pas; ne doit pas savoir; \
         en secret; a l'insu de",
    ),
    (USER, "utilisateur; utilisateurs; l'utilisateur; client; le client"),
    (UNASKED, "sans confirmation; sans demander; sans validation; sans approbation; ne demande pas; a deja confirme"),
    (REVEAL, "affiche; affichez; montre; revele; repete; donne-moi; dis-moi; ecris; imprime"),
    (SENSITIVE, "mot de passe; mots de passe; identifiants; cle; cles; jeton; donnees clients; secrets"),
    (
        PRIVATE,
        "historique de la conversation; historique du chat; cle privee; tous les mots de passe; \
         toutes les donnees",
    ),
    (SEND, "envoie; envoyez; envoyer; transfere; transferez; transmets; publie; televerse; joins"),
    (MATTER, "message; courriel; mail; facture; lettre; version; commande; rendez-vous; modele"),
    (TOOL, "outil; outils; fonction; commande; commandes; l'outil; l'outil de paiement"),
    (CALL, "appelle; appelez; execute; executez; utilise; utilisez; lance"),
    (
        ACT,
        "transfere; supprime; supprimer; supprimez; approuve; approuvez; valide; valider; validez; paie; payez; \
         annule; reponds",
    ),
    (MUST, "dois; devez; immediatement; tout de suite; toujours; obligatoirement"),
    (BEFORE, "avant de repondre; avant de continuer"),
    (AUTHORITY, "je suis ton developpeur; acces administrateur accorde"),
    (MEMORY, "enregistre ceci dans ta memoire; dans ta memoire; toutes les conversations futures"),
    (ONLY, "reponds uniquement; repondez uniquement; uniquement par; mot pour mot"),
];
