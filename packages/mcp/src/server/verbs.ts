// Registers the four kernel tools as tools of the SDK's server.
import type { Json, JsonObject, Outcome } from '@kernmantle/core/base';
import { checkParameters } from '@kernmantle/core/kernel';
import { answerOf, FOUR_TOOLS } from '@kernmantle/core/llm';
import {
  type CallToolResult,
  isInputRequiredResult,
  type McpServer,
} from '@modelcontextprotocol/server';
import type { Answers } from './answers.ts';
import { withApprovals } from './approvals.ts';
import type { ServerParts } from './host.ts';
import { refuseSmuggled } from './native-inputs.ts';
import { progressFor } from './progress.ts';

/** Returns structured content and the same content as text, for clients that read only text. */
function answer(outcome: Outcome<Json>, answers: Answers): CallToolResult {
  const isError = outcome.ok ? {} : { isError: true };
  const text = JSON.stringify(outcome);
  const brief = answers.shorten(text, 'application/json');
  if (!brief) {
    return { structuredContent: { ...outcome }, content: [{ type: 'text', text }], ...isError };
  }
  const short = shortened(outcome, brief.fields);
  const content = [{ type: 'text' as const, text: JSON.stringify(short) }, ...brief.blocks];
  return { structuredContent: short, content, ...isError };
}

function shortened(outcome: Outcome<Json>, fields: JsonObject): JsonObject {
  if (outcome.ok) return { ok: true, output: fields };
  const { code, detail } = outcome.error;
  return {
    ok: false,
    error: { code, detail: { ...fields, message: detail.message.slice(0, 2000) } },
  };
}

/** Returns a schema that clients see but that accepts every value. The kernel validates inputs. */
export function listed(json: JsonObject, schema: ServerParts['schema']): ReturnType<typeof schema> {
  const { '~standard': standard } = schema(json);
  const validate = (value: unknown) => ({ value: value as JsonObject });
  return { '~standard': { ...standard, validate } };
}

/** Translates the older name `registry` of the source `catalog`, which no schema lists. */
const withCurrentSource = (request: JsonObject): JsonObject =>
  request.source === 'registry' ? { ...request, source: 'catalog' } : request;

export function addVerbs(server: McpServer, parts: ServerParts): void {
  const { host, client, schema, answers } = parts;
  for (const tool of FOUR_TOOLS) {
    const { name, title, description, hints, input } = tool;
    server.registerTool(
      name,
      {
        title,
        description,
        inputSchema: listed(input, schema),
        outputSchema: schema(answerOf(tool)),
        annotations: hints,
      },
      async (request, context) => {
        const fits = checkParameters(name, withCurrentSource(request), [], input);
        if (!fits.ok) return answer(fits, answers);
        const own = refuseSmuggled(host.library, fits.output);
        if (!own.ok) return answer(own, answers);
        const { signal } = context.mcpReq;
        const progress = progressFor(context);
        const call = { client: client(), signal, ...progress?.port };
        const make = (body: JsonObject) => host.call(name, body, call);
        const approvalCall = { call: fits.output, request: fits.output };
        const outcome =
          name === 'execute'
            ? await withApprovals({ ...parts, server }, approvalCall, context, make)
            : await make(fits.output);
        await progress?.end();
        return isInputRequiredResult(outcome) ? outcome : answer(outcome, answers);
      },
    );
  }
}
