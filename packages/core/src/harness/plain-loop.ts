// Runs the loop without a directive: with the caller's prompt and tools, and without a store, hooks and capabilities.
// The number of turns is bounded, and the signal stops the loop.
import { fail, type Json, type JsonObject, messageOf, type Outcome, ok } from '../base/index.ts';
import { EMPTY } from '../flow/index.ts';
import type { Caller } from '../kernel/index.ts';
import type { ModelReply, ResolvedModel, ToolCallBlock, ToolDefinition } from '../llm/index.ts';
import { type Ending, type LoopPorts, runLoop, type Turn } from './loop.ts';
import { Conversation } from './thread/conversation.ts';
import type { ModelPort } from './thread/ports.ts';
import { discardedLine } from './thread/prompt.ts';

export interface PlainTool {
  name: string;
  description: string;
  /** JSON schema of the arguments, for the model. The arguments are not checked. */
  input_schema: JsonObject;
  /** Runs the tool. The model gets an exception as an error. */
  run(given: JsonObject, signal: AbortSignal): Json | Promise<Json>;
}

export interface PlainRequest {
  /** A tier of `models.yaml`, or the id of a model. */
  model: string;
  message: string;
  system?: string;
  tools?: readonly PlainTool[];
  /** Maximum number of turns. Absent: 25. */
  max_turns?: number;
  /** Maximum length of one answer in tokens. Absent: 4096. */
  max_tokens?: number;
}

export interface PlainResult {
  status: Ending['status'];
  text: string;
  reason: string;
  code?: string;
  turns: number;
  /** Usage of all requests, as the provider reported it. */
  usage: { input_tokens: number; output_tokens: number; tokens: number };
}

interface PlainPorts {
  model: ModelPort;
  resolved: ResolvedModel;
  caller: Omit<Caller, 'signal'>;
}

const MAX_TURNS = 25;
const MAX_TOKENS = 4096;

const textOf = ({ content }: ModelReply): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

async function runTool(
  tools: readonly PlainTool[],
  { name, arguments: parameters }: ToolCallBlock,
  signal: AbortSignal,
): Promise<Outcome<Json>> {
  const tool = tools.find((one) => one.name === name);
  if (!tool) return fail('not_found', `tool \`${name}\` not found`);
  try {
    return ok(await tool.run(parameters, signal));
  } catch (error) {
    return fail('tool_failed', messageOf(error));
  }
}

const stopped: Ending = { status: 'interrupted', reason: 'the caller stopped the run' };

function createState({ message, tools: list = [] }: PlainRequest) {
  const conversation = new Conversation();
  conversation.user(message, EMPTY);
  const tools: readonly ToolDefinition[] = list.map(({ name, description, input_schema }) => ({
    name,
    description,
    input_schema,
  }));
  return { conversation, tools, turns: 0, usage: { input_tokens: 0, output_tokens: 0, tokens: 0 } };
}

type LoopState = ReturnType<typeof createState>;

/** Makes one request with the whole conversation. */
async function askModel(
  { model, resolved, caller }: PlainPorts,
  request: PlainRequest,
  state: LoopState,
  signal: AbortSignal,
): Promise<Turn> {
  const { system = '', max_turns = MAX_TURNS, max_tokens = MAX_TOKENS } = request;
  const { conversation, usage, tools } = state;
  if (state.turns >= max_turns) {
    const reason = `limit \`turns\` reached: ${state.turns} of ${max_turns}`;
    return { ending: { status: 'limit', reason, code: 'turns_exceeded' } };
  }
  state.turns += 1;
  const line = await model(resolved, caller);
  const answer = line.ok
    ? await line.output.ask(
        {
          system,
          messages: conversation.messages(),
          tools,
          maxTokens: max_tokens,
          written: conversation.written,
          reading: { requestBytes: conversation.bytes() + system.length },
        },
        signal,
      )
    : line;
  if (!answer.ok) {
    const { code, detail } = answer.error;
    return {
      ending: signal.aborted ? stopped : { status: 'failed', reason: detail.message, code },
    };
  }
  const reply = answer.output;
  usage.input_tokens += reply.usage.input_tokens;
  usage.output_tokens += reply.usage.output_tokens;
  usage.tokens += reply.usage.tokens;
  conversation.assistant(reply.content);
  const lost = notRun(reply);
  if (lost.length > 0) conversation.user(discardedLine(lost), EMPTY);
  return { reply };
}

/** Returns the names of calls that were not made, because they cannot be read. */
const notRun = ({ bad_arguments = [], broken }: ModelReply): string[] =>
  [...bad_arguments, ...(broken?.discarded_partial ?? [])].map(({ name = 'a call' }) => name);

function portsOf(
  ports: PlainPorts,
  request: PlainRequest,
  state: LoopState,
  signal: AbortSignal,
): LoopPorts {
  const { conversation } = state;
  return {
    between: async () => (signal.aborted ? stopped : undefined),
    turn: () => askModel(ports, request, state, signal),
    pending: () => conversation.pending(),
    async perform(calls) {
      for (const call of calls) {
        if (signal.aborted) return stopped;
        const outcome = await runTool(request.tools ?? [], call, signal);
        const content = outcome.ok
          ? outcome.output
          : ({ ok: false, error: outcome.error } as unknown as Json);
        conversation.result(call.id, { content, marks: EMPTY, isError: !outcome.ok });
      }
      return undefined;
    },
    final: async (reply) =>
      notRun(reply).length > 0
        ? undefined
        : { status: 'completed', reason: '', text: textOf(reply) },
  };
}

/** Runs turns until the model makes no more calls. Never rejects. */
export async function runPlainLoop(
  ports: PlainPorts,
  request: PlainRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<PlainResult> {
  const state = createState(request);
  const { status, reason, text = '', code } = await runLoop(portsOf(ports, request, state, signal));
  const { turns, usage } = state;
  return { status, text, reason, turns, usage, ...(code === undefined ? {} : { code }) };
}
