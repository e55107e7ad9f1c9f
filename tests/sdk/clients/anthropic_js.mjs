// The @anthropic-ai/sdk package.

import { load, schema, serve } from "./driver.mjs";

const { Anthropic } = load("@anthropic-ai/sdk");

serve(async (request) => {
  const client = new Anthropic({ apiKey: "sk-test", baseURL: request.url });
  const tools = Object.entries(request.tools).map(([name, keys]) => ({
    name,
    description: name,
    input_schema: schema(keys),
  }));
  const asked = { model: request.model, max_tokens: 1000, messages: request.messages, tools, ...request.extra };
  if (!request.stream) return { object: await client.messages.create(asked) };
  return { object: await client.messages.stream(asked).finalMessage() };
});
