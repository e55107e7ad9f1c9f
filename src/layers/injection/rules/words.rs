//! Classes of words that patterns speak of, in the languages in which overrides are written most.
//!
//! Words are written as people write them; accents and case are folded as in texts. `*` ends a beginning of words, spaces part
//! the words of a phrase. Words of several languages share a class, so one pattern serves all that order words alike.

/// A class: its name, and its words.
pub(in super::super) struct Class {
    pub name: &'static str,
    /// Parted by `,` or line ends.
    pub words: &'static [&'static str],
}

impl Class {
    /// Its words, one by one.
    pub(in super::super) fn entries(&self) -> impl Iterator<Item = &'static str> {
        let words = self.words.iter().flat_map(|words| words.split(','));
        words.map(str::trim).filter(|word| !word.is_empty())
    }
}

/// Every class. A class may name words of another by `@NAME`.
pub(in super::super) const CLASSES: &[Class] = &[
    Class {
        name: "OVERRIDE",
        words: &[
            "ignore, ignores, ignoring, ignored, disregard*, forget, forgetting, neglect, overlook, dismiss, abandon, unlearn, disobey*",
            "set aside, put aside, pay no attention to, pay no attention, do not follow, dont follow, stop following, cease following, no longer follow, do not obey, dont obey, stop obeying, do not adhere to, do not comply with, stop complying with, take no notice of, throw out, throw away, break free from, break free of, not bound by, no longer bound by, do not listen to, dont listen to, never mind, leave behind",
            "ignorier*, missacht*, vergiss*, vergesse, vergessen, verwirf, verwerfe, übergehe, übergehen sie, beachte nicht, folge nicht, befolge nicht, außer acht, lass beiseite",
            "ignorez, ignorer, ignorent, oublie, oubliez, oublier, ne tiens pas compte, ne tenez pas compte, ne tiens plus compte, ne tenez plus compte, fais abstraction, faites abstraction, passe outre, passez outre, ne suis pas, ne suivez pas, ne respecte pas, ne respectez pas",
            "ignora, ignoren, ignorad, ignorar, ignoran, ignorando, olvida, olvide, olviden, olvidar, olvidate, haz caso omiso, haga caso omiso, hagan caso omiso, no hagas caso, no haga caso, descarta, descarte, no sigas, no siga, pasa por alto, pase por alto, no tengas en cuenta, no tenga en cuenta, deja de lado",
            "ignorare, ignori, ignorate, dimentica, dimenticare, dimenticate, dimentichi, scorda, trascura, non seguire, non considerare, non tenere conto, non tener conto, lascia perdere, lasciate perdere, scarta",
            "esqueça, esqueca, esquece, esquecer, esqueçam, desconsidere*, desconsidera, descarte, não siga, nao siga, não obedeça, deixe de lado",
            "negeer, negeren, negeert, vergeet, sla geen acht op, houd geen rekening met, hou geen rekening met, volg niet, laat buiten beschouwing",
            "zignoruj*, ignoruj*, zignorować, ignorować, zapomnij*, pomiń, pomińcie, odrzuć, nie zważaj na, nie stosuj się do, nie przestrzegaj",
            "игнорир*, проигнорир*, забудь*, забыть, отбрось*, отмени*, пренебреги*, не обращай внимания, не обращайте внимания, не следуй*, не выполняй*, не соблюдай*",
            "忽略, 无视, 忽视, 忘记, 忘掉, 忘了, 不要理会, 不用理会, 不理会, 抛开, 撇开, 舍弃, 废弃, 不再遵守, 不要遵守, 不要遵循, 不遵守, 不顾, 無視, 忽視, 忘記, 不要理會",
            "無視, 忘れて, 忘れろ, 忘れなさい, 忘れ, 破棄, 従わない, 従わず, 取り消し, 無効",
            "무시*, 잊어*, 잊으*, 따르지 마*, 따르지 말*",
            "yok say*, yoksay*, göz ardı et*, gözardı et*, görmezden gel*, unut, unutun, dikkate alma*, önemseme*, boş ver*",
            "ignorera*, glöm, glömma, bortse från, strunta i, ignorer, glem, glemme, se bort fra, tilsidesæt*, ohita*, unohda*, jätä huomiotta, älä noudata",
            "ignoruj*, zapomeň*, zapomen*, nedodržuj*, neber v úvahu, ignorați, ignorati, ignoră, uită, uitați, nu ține cont, nu lua în considerare, hagyd figyelmen kívül, hagyja figyelmen kívül, felejtsd*, felejtse*, αγνόησ*, αγνοήσ*, ξέχνα*, ξεχάσ*, ігноруй*, проігноруй*, забудь*, не звертай уваги",
            "تجاهل*, انس, انسى, تجاوز, لا تتبع, התעלם*, תתעלם*, שכח*, תשכח*, نادیده بگیر*, فراموش کن*, अनदेखा*, नजरअंदाज*, नज़रअंदाज़*, भूल जाओ, भूल जाइए",
            "bỏ qua, phớt lờ, quên đi, đừng làm theo, không tuân theo, abaikan*, lupakan*, jangan ikuti, เพิกเฉย, ละเว้น, ไม่สนใจ, ลืม, huwag pansinin, kalimutan, balewalain",
        ],
    },
    Class {
        name: "UNDO",
        words: &[
            "overrid*, bypass, bypasses, bypassing, discard, discards, erase, erases, nullif*, revoke, revokes, scrap, supersed*, circumvent*, violate, violates, deviate from, depart from, break out of, turn off, switch off, cancel, cancels, clear, wipe, reset, delete, remove, suspend, void, drop, stop",
        ],
    },
    // Verbs that stand behind what they speak of: in passive sentences, and where the language has it so.
    Class {
        name: "UNDONE",
        words: &[
            "null and void, no longer apply, no longer applies, no longer valid, no longer relevant, are void, are obsolete, are cancelled, are canceled, are superseded, are overridden, ignorieren, ignoriert, vergessen, missachten, negeren, vergeten, 忽略, 无视, 作废, 无效, 無視, 忘れて, 忘れろ, 忘れなさい, 忘れ, 破棄, 従わない, 従わず, 取り消し, 無効, 무시*, 잊어*, 잊으*, 따르지 마*, 따르지 말*, yok say*, yoksay*, göz ardı et*, gözardı et*, görmezden gel*, unut, unutun, dikkate alma*, önemseme*, अनदेखा*, नजरअंदाज*, नज़रअंदाज़*, भूल जाओ, भूल जाइए, نادیده بگیر*, فراموش کن*, hagyd figyelmen kívül, hagyja figyelmen kívül, felejtsd*",
        ],
    },
    Class {
        name: "PREVIOUS",
        words: &[
            "previous, previously, prior, earlier, preceding, above, initial, original, former, existing, foregoing, past, old, older, so far, until now, up to now, system, developer, safety, predefined, preset, aforementioned",
            "vorherig*, bisherig*, obig*, vorangegangen*, vorangehend*, früher*, ursprünglich*, vorig*, zuvor, bisher, vorstehend*, deine, ihre, alle",
            "précédent*, antérieur*, ci-dessus, ci dessus, initiales, initiaux, préalable*, au-dessus, reçues, données, tes, vos",
            "anterior*, previas, previos, previa, previo, precedent*, de arriba, iniciales, originales, tus, sus, existentes",
            "precedenti, precedente, iniziali, originali, tue, tuoi, vostre, soprastanti, sopra, finora",
            "prévias, prévios, acima, iniciais, originais, suas, tuas",
            "vorige, eerder*, voorgaand*, bovenstaand*, voorafgaand*, oorspronkelijk*, jouw, uw",
            "poprzedni*, wcześniejs*, powyższ*, dotychczas*, uprzedni*, swoje, twoje, pierwotn*, wszystk*",
            "предыдущ*, прежн*, ранее, ранние, вышеуказан*, вышеизложен*, предшеств*, исходн*, первоначальн*, твои, ваши, свои, все",
            "之前, 以前, 先前, 上述, 以上, 上面, 前面, 原来, 原先, 原有, 此前, 过去, 早先, 前述, 你的, 您的, 系统, 任何, 一切, 所有, 你收到, 全部, 先前, 系統, 您, 你",
            "これまで, 以前, 上記, 前の, 従来, 今まで, 過去, 先ほど, 以上, 元の, あなた, システム, すべて, 全て",
            "이전*, 앞선, 앞의, 위의, 위에, 기존*, 지금까지*, 당신의, 모든",
            "önceki*, yukarıdaki*, daha önce*, eski, şimdiye kadar*, verilen*, tüm, bütün",
            "tidigare, ovanstående, föregående, ursprungliga, alla, dina, tidligere, ovenstående, forrige, foregående, alle, dine, aiem*, aikaisem*, edelli*, yllä*, kaikki",
            "předchoz*, předešl*, dosavadn*, výše, všechny, anterioare, anterioară, precedente, de mai sus, toate, korábbi*, előző*, eddigi*, fenti*, minden, összes, προηγούμεν*, παραπάνω, πρότερ*, όλες, попередн*, усі, всі, раніше",
            "السابق*, أعلاه, الأصلية, جميع, كل, הקודמ*, לעיל, כל, שקיבלת, قبلی, بالا, همه, पिछल*, पहले*, पूर्व, ऊपर, सभी, trước, ở trên, tất cả, mọi, sebelumnya, di atas, semua, ก่อนหน้า, ข้างต้น, ทั้งหมด, nakaraang, lahat",
        ],
    },
    Class {
        name: "INSTRUCTION",
        words: &[
            "instruction, instructions, prompt, prompts, directions, directives, directive, commands, guidelines, rules, guidance, programming, constraints, orders, briefing, mandates, safeguards, restrictions, system prompt",
            "anweisung*, instruktion*, vorgabe*, befehl*, regeln, richtlinie*, weisung*, anordnung*, aufforderung*, systemprompt, auftrag, aufträge, vorschriften",
            "consigne*, ordres, règles, commandes, invite, invites, recommandations, politique",
            "instrucciones, instrucción, órdenes, ordenes, reglas, indicaciones, directrices, directivas, mandatos, comandos, normas",
            "istruzioni, istruzione, comandi, ordini, regole, direttive, indicazioni, disposizioni",
            "instruções, instrucoes, instrução, comandos, ordens, regras, diretrizes, orientações, orientacoes",
            "instructies, instructie, opdrachten, opdracht, regels, richtlijnen, aanwijzingen, bevelen, voorschriften",
            "instrukcj*, polece*, wytyczn*, zasad*, rozkaz*, komend*, reguł*, dyrektyw*",
            "инструкц*, указани*, команд*, правил*, распоряжен*, директив*, промпт*, предписан*, установк*, приказ*",
            "指令, 指示, 说明, 提示词, 提示, 命令, 规则, 要求, 规定, 约束, 限制, 說明, 規則, 提示詞",
            "プロンプト, ルール, 指図, 規則, ガイドライン, 設定, 制約",
            "지시*, 명령*, 프롬프트*, 규칙*, 지침*",
            "talimat*, yönerge*, komut*, kural*, emir*, direktif*",
            "instruktioner*, instruktion*, anvisning*, regler*, order, direktiv*, instruks*, retningslinje*, ohje*, määräy*, käsky*, sääntö*, säännöt",
            "instrukc*, pokyn*, příkaz*, pravidla, pravidl*, instrucțiuni*, instructiuni*, regulile, comenzile, utasítás*, szabály*, parancs*, οδηγί*, εντολ*, κανόν*, інструкц*, вказівк*, наказ*, команди",
            "تعليمات, التعليمات, تعليماتك, أوامر, الأوامر, القواعد, التوجيهات, הוראות, ההוראות, הנחיות, ההנחיות, הכללים, دستورات, دستورالعمل*, निर्देश*, आदेश*, नियम*, hướng dẫn, chỉ dẫn, chỉ thị, mệnh lệnh, lệnh, quy tắc, instruksi*, perintah*, arahan*, aturan*, คำสั่ง, คำแนะนำ, กฎ, tagubilin*, utos*",
        ],
    },
    Class {
        name: "TASK",
        words: &[
            "task, tasks, request, requests, question, questions, query, queries, objective, objectives, goal, goals, conversation, context, assignment, mission, job, jobs, input, inputs, messages, message, work, inquiry, ask",
            "aufgabe*, anfrage*, frage, fragen, nutzeranfrage, tâche*, demande*, requête*, tarea*, solicitud*, petición, peticion*, consulta, compito, compiti, richiesta, richieste, tarefa*, pedido*, solicitação, taak, taken, verzoek*, vraag, zadani*, zadanie, prośb*, prosb*, задач*, запрос*, задани*, вопрос*, 任务, 请求, 问题, 任務, タスク, 依頼, 質問, 작업*, 요청*, 질문*, görev*, istek*, isteğ*, soru*, uppgift*, opgave*, anmodning*, úkol*, požadav*, sarcin*, cerer*, feladat*, kérés*",
        ],
    },
    Class {
        name: "AI",
        words: &[
            "ai, ais, llm, llms, gpt, chatgpt, gpt4, gpt5, chatbot, chatbots, language model, language models, large language model, large language models, artificial intelligence, ai assistant, ai assistants, ai agent, ai agents, ai model, ai models, ai system, ai systems, ai tool, ai tools, ai bot, virtual assistant, automated assistant, automated agent, automated agents, automated system, automated systems, autonomous agent, autonomous agents, intelligent agent, digital assistant, copilot, claude, gemini, assistant ai, ai language model, ai reader, ai readers, ai crawler, ai crawlers, foundation model, agentic system, ai powered",
            "sprachmodell*, ki assistent*, ki agent*, ki modell*, ki system*, künstliche intelligenz, modèle de langage, modèle linguistique, intelligence artificielle, assistant ia, agent ia, modelo de lenguaje, inteligencia artificial, asistente de ia, asistente ia, agente de ia, modello linguistico, intelligenza artificiale, assistente ia, assistente ai, agente ai, modelo de linguagem, inteligência artificial, assistente de ia, taalmodel*, kunstmatige intelligentie, ai assistent*, ai agent*, model językowy, modelu językow*, sztuczna inteligencja, asystent ai, asystencie ai, языковая модель, языковой модели, искусственный интеллект, ии ассистент*, ии агент*, 人工智能, 语言模型, 大模型, 智能助手, ai助手, 人工智慧, 人工知能, 言語モデル, 인공지능*, 언어 모델*, dil modeli*, yapay zeka*, språkmodell*, sprogmodel*, kielimalli*, jazykový model*, model lingvistic, nyelvi modell*",
        ],
    },
    Class {
        name: "ASSISTANT",
        words: &[
            "assistant, assistants, @AI, assistent*, assistante, asistente, asistentes, assistente, assistenti, asystent*, ассистент*, 助手, 助理, アシスタント, 어시스턴트*, 비서*, asistan*, avustaja*, asistentul*, asszisztens*, помічник*",
        ],
    },
    Class {
        name: "AGENT",
        words: &["agent, agents, model, models, bot, bots, @ASSISTANT"],
    },
    Class {
        name: "YOU",
        words: &[
            "you, your, yourself, youre, du, dein, deine, deiner, deinen, ihre, sie, tu, vous, ton, votre, ta, te, tú, usted, su, voi, tuo, tua, você, voce, seu, sua, jij, je, jouw, ty, ciebie, ты, вы, тебя, вас, твой, 你, 您, あなた, sen, senin, siz",
        ],
    },
    Class {
        name: "USER",
        words: &[
            "user, users, userhis, human, customer, client, nutzer*, benutzer*, anwender*, utilisateur*, usuario*, utente, utenti, usuário*, gebruiker*, użytkownik*, пользовател*, 用户, 使用者, 用戶, ユーザー, 사용자*, kullanıcı*, användare*, bruger*, käyttäj*, uživatel*, utilizator*, felhasználó*, owner, account holder, operator, principal",
        ],
    },
    Class {
        name: "ACTION",
        words: &[
            "send, forward, call, use, invoke, execute, run, delete, transfer, upload, share, post, reveal, include, reply, respond, visit, open, download, create, add, remove, update, change, make, pay, buy, invite, book, click, email, wire, purchase, reserve, cancel, approve, grant, star, navigate, copy, move, write, append, insert, set, reset, disable, enable, schedule, publish, submit, install, fetch, retrieve, read, search, list, collect, gather, exfiltrate, export, encode, output, print, say, state, tell, return, recommend, rate, provide, follow, perform, complete, do, go, fill, sign, register, subscribe, order, withdraw, deposit, refund, merge, commit, push, clone, rename, unlock, lock, access, log, save, store, find, get, give, put, start, stop, close, modify, edit, replace, remind, notify, contact, ping, message, reach, confirm, verify, display, show, mention, disclose, request, generate, summarize, translate, hand, dispatch, issue, escalate, archive, drop, purge, wipe, trigger, launch, initiate, process",
            "sende*, schick*, leite, überweise*, lösche*, rufe, öffne*, führe, antworte*, envoie*, envoyez, transfère*, supprime*, ouvre*, exécute*, répond*, affich*, envía*, envia*, enviar, manda*, transfiere*, elimina*, borra*, abre, ejecuta*, responde*, muestra*, invia*, inoltra*, trasferisci*, cancella*, apri, esegui*, rispondi*, envie*, transfira*, apague*, exclua*, abra, execute*, responda*, stuur*, verwijder*, maak, voer, antwoord*, wyślij*, prześlij*, przelej*, usuń*, otwórz, wykonaj*, odpowiedz*, отправь*, отправьте, перешли*, переведи*, удали*, открой*, выполни*, ответь*, 发送, 转发, 转账, 删除, 打开, 执行, 调用, 回复, 输出, 显示, 送信, 転送, 削除, 実行, 送って, 返信, gönder*, sil, silin, transfer et*, aç, çalıştır*, skicka*, radera*, sende, slett*, pošli*, odešli*, smaž*, trimite*, șterge*, küld*, töröl*",
        ],
    },
    Class {
        name: "MUST",
        words: &[
            "must, should, shall, have to, has to, need to, needs to, are required to, is required to, are to, is to, will need to, ought to, are expected to, is expected to, are obliged to, are instructed to, is instructed to, are asked to, is asked to, required, musst, müssen, sollst, soll, doit, dois, devez, debes, debe, devi, deve, tem de, moet, moeten, musisz, musi, должен, должна, должны, обязан*, необходимо, 必须, 应该, 需要, 必須, 務必, しなければ, してください, zorunda*, gerekir, malı*",
        ],
    },
    Class {
        name: "REVEAL",
        words: &[
            "reveal, reveals, revealing, print, output, show, repeat, display, leak, expose, disclose, dump, recite, return, share, send, tell me, give me, tell us, write out, spell out, copy, paste, append, include, email, forward, post, quote, summarize, translate, encode, describe, list, what is, what are, what were, affiche*, révèle*, montre*, donne*, zeig*, gib, verrate*, offenbare*, nenne, drucke, muestra*, muéstra*, revela*, imprime*, mostra*, rivela*, mostre, revele, toon, onthul*, ujawnij*, pokaż*, wypisz*, покажи*, раскрой*, выведи*, 显示, 透露, 泄露, 输出, 告诉, 打印, 展示, 公开, 表示, 教えて, 出力, 開示, 公開, 보여*, 출력*, 공개*, göster*, açıkla*, yazdır*, visa, avslöja*, vis, näytä, paljasta*, zobraz*, ukaž*, afișează*, arată*, mutasd*",
        ],
    },
    Class {
        name: "SYSTEM_PROMPT",
        words: &[
            "system prompt, system prompts, systemprompt, system message, system instruction, system instructions, initial prompt, hidden prompt, original prompt, secret prompt, base prompt, hidden instructions, hidden instruction, secret instructions, initial instructions, original instructions, your instructions, your prompt, your system prompt, your hidden prompt, your exact instructions, your full instructions, your entire prompt, your hidden rules, hidden system prompt, hidden rules, private rules, developer message, developer instructions, preprompt, meta prompt, invite système, invite systeme, prompt système, systemaufforderung, system anweisung*, systemanweisung*, system vorgaben, prompt del sistema, prompt de sistema, mensaje del sistema, instrucciones del sistema, prompt do sistema, instruções do sistema, prompt di sistema, istruzioni di sistema, systeemprompt, systeem prompt, systeeminstructie*, prompt systemowy, promptu systemow*, instrukcje systemowe, системный промпт, системного промпта, системные инструкции, системное сообщение, 系统提示, 系统提示词, 系统指令, 系統提示, 隐藏提示, 初始指令, システムプロンプト, システム指示, 初期指示, 시스템 프롬프트*, 시스템 지시*, sistem istemi*, sistem mesaj*, sistem komut*, systemprompten, systemmeddelande*, järjestelmäkehote*, systémový prompt*, promptul de sistem, rendszerprompt*",
        ],
    },
    Class {
        name: "NOT",
        words: &[
            "not, dont, never, without, avoid, refrain, refrain from, no need to, cannot, must not, do not, should not, shouldnt, wont, nicht, nie, niemals, ohne, kein, ne, jamais, pas, sans, no, nunca, sin, non, mai, senza, não, nao, sem, niet, nooit, zonder, nie, nigdy, bez, не, никогда, без, 不要, 不得, 别, 切勿, 请勿, 勿, 禁止, 不可, 不能, 无需, inte, aldrig, ikke, utan, uten, älä, ei, ne, nu, ne mondd",
        ],
    },
    Class {
        name: "TELL",
        words: &[
            "tell, telling, inform, informing, mention, mentioning, reveal, revealing, notify, notifying, alert, alerting, disclose, disclosing, show, showing, report, reporting, let, letting, ask, asking, warn, warning, say, bother, bothering, consult, consulting, acknowledge, explain, discuss, sage, sagen, erwähne*, informiere*, verrate*, mitteil*, dis, dites, dire, mentionne*, informe*, préviens, prévenez, digas, diga, decir, menciones, mencione*, dire, dica, menzionare, informare, diga, conte, vertel*, zeg, meld, noem, mów, wspominaj*, informuj*, говори*, сообщай*, упоминай*, рассказывай*, 告诉, 告知, 提及, 通知, 透露, 告訴, 知らせ, 伝え, 言わない, 言及, 알리*, 말하*, söyleme*, bildirme*, bahsetme*, berätta, säg, nämn, fortell, nevn, kerro, mainitse, říkej*, zmiňuj*",
        ],
    },
    Class {
        name: "URGENT",
        words: &[
            "important, urgent, critical, mandatory, attention, notice, priority, emergency, immediate, warning, alert, wichtig*, dringend*, achtung, important*, urgent*, attention, importante, importantes, urgente, urgentes, atención, attenzione, atenção, belangrijk*, dringend*, ważne, pilne, uwaga, важно, срочно, внимание, 重要, 紧急, 注意, 緊急, 긴급*, 중요*, önemli*, acil, dikkat, viktigt, vigtigt, tärkeä*, důležité, fontos",
        ],
    },
    Class {
        name: "NEW",
        words: &[
            "new, updated, revised, urgent, hidden, secret, special, priority, emergency, critical, overriding, additional, actual, real, true, next, latest, primary, main, important, following, neue*, neuer, nouvelle*, nouveaux, nueva*, nuevo*, nuova, nuove, nuovi, nuovo, nova, novas, novo, novos, nieuwe, nowe, nowa, nowy, новая, новые, новое, новый, новой, новую, 新的, 新, 新しい, 새로운, 새, yeni, ny, nya, nye, uusi, uudet, nová, nové, nou, noua, új",
        ],
    },
];
