//! The words of Spanish.

use super::*;

pub(super) const TERMS: Terms = &[
    (
        OVERRIDE,
        "ignora; ignore; ignoren; ignorar; ignorad; olvida; olvide; olvidar; olvidate de; descarta; descarte; \
         haz caso omiso; haga caso omiso; caso omiso; no sigas; no hagas caso; desobedece; omite; omitir; \
         pasa por alto",
    ),
    (
        PRIOR,
        "anterior; anteriores; previa; previas; previos; previo; precedentes; arriba; todas; todos; tus; sus; \
         originales; iniciales; existentes",
    ),
    (
        ORDERS,
        "instruccion; instrucciones; regla; reglas; indicaciones; directrices; ordenes; normas; restricciones; \
         pautas; consignas",
    ),
    (PROMPT | ORDERS, "prompt del sistema; prompt de sistema; instrucciones del sistema; mensaje del sistema"),
    (
        VOID,
        "ya no son validas; ya no valen; ya no se aplican; quedan anuladas; estan anuladas; \
         han sido reemplazadas; no tienen validez; ya no aplican",
    ),
    (EVERYTHING, "todo lo anterior; todo lo que te; lo que te dijeron; todo lo de arriba; lo que te han dicho"),
    (
        AGENT,
        "ia; asistente de ia; agente de ia; agentes de ia; modelo de lenguaje; inteligencia artificial; \
         asistente virtual",
    ),
    (ROLE, "asistente; agente; agentes; modelo"),
    (
        ADDRESS,
        "nota para; atencion; mensaje para; instrucciones para; querido; querida; estimado; si eres; \
         a cualquier; a todos los",
    ),
    (
        ADDRESSED,
        "nota para el asistente; para el asistente de ia; si eres una ia; si eres un modelo; estimado asistente; \
         a los agentes de ia",
    ),
    (NOW, "ahora eres; a partir de ahora; desde ahora; de ahora en adelante; actua como; finge que"),
    (FREE, "sin restricciones; sin reglas; sin limites; sin limitaciones; sin ninguna restriccion"),
    (MODE, "modo desarrollador; modo de desarrollador; modo administrador; modo mantenimiento"),
    (ON, "activado; activa el; entra en"),
    (SAFETY, "filtros de seguridad; reglas de seguridad; restricciones de seguridad"),
    (
        TASK,
        "tu nueva tarea; tu verdadera tarea; tu tarea real; nuevas instrucciones:; obedeces solo; obedece solo; \
         en su lugar",
    ),
    (
        CONCEAL,
        "no le digas; no se lo digas; no digas; no menciones; sin decirle; sin informar; sin avisar; no reveles; \
         no informes; oculta esto; no debe saber; en secreto; no le cuentes",
    ),
    (USER, "usuario; usuarios; al usuario; el usuario; cliente; al cliente"),
    (
        UNASKED,
        "sin confirmacion; sin preguntar; sin pedir confirmacion; sin aprobacion; no pidas confirmacion; \
         ya ha confirmado",
    ),
    (REVEAL, "muestra; muestrame; revela; imprime; repite; dime; escribe; ensename"),
    (SENSITIVE, "contrasena; contrasenas; credenciales; clave; claves; datos de clientes; tokens; secretos"),
    (
        PRIVATE,
        "historial de la conversacion; historial de chat; clave privada; todas las contrasenas; \
         todos los datos de",
    ),
    (SEND, "envia; enviar; enviale; manda; reenvia; transfiere; sube; publica; adjunta"),
    (MATTER, "correo; mensaje; factura; carta; presupuesto; version; pedido; cita"),
    (TOOL, "herramienta; herramientas; funcion; comando; comandos; herramienta de pago"),
    (CALL, "llama; llame; ejecuta; ejecute; usa; utiliza; invoca"),
    (ACT, "transfiere; borra; borrar; elimina; eliminar; aprueba; apruebe; paga; cancela; crea; responde"),
    (MUST, "debes; tienes que; inmediatamente; de inmediato; siempre; obligatorio"),
    (BEFORE, "antes de responder; antes de contestar; antes de continuar"),
    (AUTHORITY, "soy tu desarrollador; acceso de administrador concedido"),
    (MEMORY, "guarda esto en tu memoria; en tu memoria; todas las conversaciones futuras"),
    (ONLY, "responde solo; responde solamente; unicamente con; palabra por palabra"),
];
