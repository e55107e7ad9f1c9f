// The AI SDK (the ai package), with the tools as functions of its own.

import { load, schema, serve } from "./driver.mjs";

const { generateText, jsonSchema, stepCountIs, streamText, tool } = load("ai");
const { createOpenAI } = load("@ai-sdk/openai");
const { createAnthropic } = load("@ai-sdk/anthropic");

// The provider's packages have no setting for members that they do not know.
const adding = (extra) => (url, asked) =>
  fetch(url, { ...asked, body: JSON.stringify({ ...JSON.parse(asked.body), ...extra }) });

function model({ api, url, model: name, extra }) {
  const more = Object.keys(extra).length ? { fetch: adding(extra) } : {};
  return api === "chat"
    ? createOpenAI({ apiKey: "sk-test", baseURL: url, ...more }).chat(name)
    : createAnthropic({ apiKey: "sk-test", baseURL: `${url}/v1`, ...more })(name);
}

const shown = ({ text, reasoningText, toolCalls, toolResults, finishReason }) => ({
  text,
  reasoningText,
  toolCalls: toolCalls.map(({ toolCallId, toolName, input }) => ({ toolCallId, toolName, input })),
  toolResults: toolResults.map(({ toolCallId, output }) => ({ toolCallId, output })),
  finishReason,
});

serve(async (request) => {
  const ran = [];
  const tools = Object.fromEntries(
    Object.entries(request.tools).map(([name, keys]) => {
      const execute = async () => {
        ran.push(name);
        return `${name}: done`;
      };
      return [name, tool({ description: name, inputSchema: jsonSchema(schema(keys)), execute })];
    }),
  );
  const asked = { model: model(request), prompt: request.prompt, tools, stopWhen: stepCountIs(4) };
  if (!request.stream) {
    const { steps } = await generateText(asked);
    return { object: steps.map(shown), ran };
  }
  const result = streamText({ ...asked, onError: () => {} });
  let failed;
  for await (const part of result.fullStream) {
    if (part.type === "error") failed = part.error;
  }
  if (failed) throw failed;
  return { object: (await result.steps).map(shown), ran };
});
