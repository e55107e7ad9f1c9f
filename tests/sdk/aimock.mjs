// aimock with the scenarios as fixtures: a second upstream, written by others. Prints its address.
// It gets the scripted upstream's models, and knows the manner `kept` alone.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const load = createRequire(path.join(path.resolve(process.argv[2]), "package.json"));
const { LLMock } = load("@copilotkit/aimock");
const scenarios = JSON.parse(readFileSync(new URL("scenarios.json", import.meta.url)));
const usage = { prompt_tokens: 7, completion_tokens: 5, input_tokens: 7, output_tokens: 5 };
const same = { id: "answer_1", created: 1700000000, model: "scripted-1", usage };

const mock = new LLMock({ port: 0 });
mock.on({ hasToolResult: true }, { content: "Done.", ...same });
for (const [name, { text, calls }] of Object.entries(scenarios)) {
  const numbered = calls.map((call, number) => ({ ...call, id: `call_${number}` }));
  const variants = { [name]: numbered, [`${name}+kept`]: numbered.filter((call) => !call.code) };
  for (const [script, said] of Object.entries(variants)) {
    const toolCalls = said.map(({ id, name: tool, arguments: args }) => ({ id, name: tool, arguments: args }));
    const response = { ...(text && { content: text }), ...(toolCalls.length && { toolCalls }), ...same };
    mock.on({ predicate: (asked) => asked.model.split("@")[0] === script }, response);
  }
}
await mock.start();
console.log(mock.url);
