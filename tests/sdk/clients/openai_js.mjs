// The openai package.

import { load, schema, serve } from "./driver.mjs";

const { OpenAI } = load("openai");

serve(async (request) => {
  const client = new OpenAI({ apiKey: "sk-test", baseURL: request.url });
  const tools = Object.entries(request.tools).map(([name, keys]) => ({
    type: "function",
    function: { name, description: name, parameters: schema(keys) },
  }));
  const asked = { model: request.model, messages: request.messages, tools, ...request.extra };
  if (!request.stream) return { object: await client.chat.completions.create(asked) };
  return { object: await client.chat.completions.stream(asked).finalChatCompletion() };
});
