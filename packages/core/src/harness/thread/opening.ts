// Creates ids and opening events of threads. An id such as `deploy_staging_20300131_235959_x7k2` has the time in
// UTC. Its suffix is short enough to type, so two of many threads that start in one second can get the same id.
import {
  type Clock,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RandomBytes,
} from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { JournalEvent, Opening } from '../../journal/index.ts';
import { type Caller, readyForm, type ToolSignature } from '../../kernel/index.ts';
import { FROM_USER, packGiven, packMarks } from './conversation.ts';
import { memoryNote } from './open-memory.ts';
import { describedTools, permittedTools } from './permitted-tools.ts';
import { injection, toolReferences } from './prompt.ts';
import type { HarnessPorts, Prepared, Thread } from './thread.ts';

type IdPorts = { clock: Pick<Clock, 'now'>; random: RandomBytes };

const SUFFIX = 4;
/** Number of tries. Ten used ids in a row do not occur, even with a thousand threads in one second. */
const MAX_TRIES = 10;

export function makeThreadId(name: string, { clock, random }: IdPorts): string {
  const stamp = new Date(clock.now())
    .toISOString()
    .replace(/[-:]/g, '')
    .replace('T', '_')
    .slice(0, 15);
  const suffix = [...random(SUFFIX)].map((byte) => (byte % 36).toString(36)).join('');
  return `${name.slice(0, 59)}_${stamp}_${suffix}`;
}

/** Returns an id for an approval request. The caller makes it, so that an event of the same commit can have it. */
export const makeApprovalId = (random: RandomBytes): string =>
  `ap_${Buffer.from(random(9)).toString('base64url').replaceAll('-', '_')}`;

/** Starts under a new id, and under another one if it is in use. A refused `start` must leave nothing behind. */
export async function withFreshId<T>(
  name: string,
  ports: IdPorts,
  start: (id: string) => Outcome<T> | Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  for (let tries = 1; ; tries++) {
    const started = await start(makeThreadId(name, ports));
    const isTaken = !started.ok && started.error.code === 'thread_exists';
    if (!isTaken || tries === MAX_TRIES) return started;
  }
}

const NO_INPUTS: ReadonlyMap<string, Value> = new Map();
const asObject = (value: Json): JsonObject => (isObject(value) ? value : {});

/** Returns the directive for the thread that runs it, without the advice on how to spawn a thread. */
function ownDirective(ready: Json, tools: JsonObject): Json {
  if (!isObject(ready)) return ready;
  const { can_spawn_thread: _, spawn_instructions: __, missing_for_thread: ___, ...rest } = ready;
  const message = 'this thread runs the directive: follow its process';
  return { ...rest, ...tools, message };
}

type OpeningPorts = Pick<HarnessPorts, 'kernel' | 'frame' | 'tierExemption'>;

const asHarness = ({ frame, tierExemption }: OpeningPorts): Caller => ({
  surface: 'harness',
  name: 'harness',
  tierExemption,
  frame: frame(),
});

/** True if the item can contain untrusted text. An item that cannot be loaded counts as untrusted. */
async function isForeign(ports: OpeningPorts, item_type: 'tool' | 'knowledge', id: string) {
  const request = { item_type, item_id: id, part: 'body' };
  const loaded = await ports.kernel.load(request, asHarness(ports));
  return !loaded.ok || carries(loaded.output.meta.descriptor, 'untrusted');
}

interface OpenTexts {
  agents: string;
  universal: string;
  tools: readonly ToolSignature[];
}

/** Returns the texts that a model gets directly, without those that are untrusted. */
export async function withoutStrangers(ports: OpeningPorts, texts: OpenTexts): Promise<OpenTexts> {
  const [agents, universal] = await Promise.all([
    isForeign(ports, 'knowledge', 'AGENTS'),
    isForeign(ports, 'knowledge', 'system/universal_prompt'),
  ]);
  return {
    agents: agents ? '' : texts.agents,
    universal: universal ? '' : texts.universal,
    tools: await ownTools(ports, texts.tools),
  };
}

/** Returns the tools with trusted texts. A person vouches for a tool by signing it. */
async function ownTools(
  ports: OpeningPorts,
  tools: readonly ToolSignature[],
): Promise<readonly ToolSignature[]> {
  const own: ToolSignature[] = [];
  for (const tool of tools) {
    if (tool.isSigned || !(await isForeign(ports, 'tool', tool.id))) own.push(tool);
  }
  return own;
}

/** Marks of single inputs, by name, and of the message. An absent entry means no marks. */
export interface GivenMarks {
  readonly inputs: ReadonlyMap<string, Descriptor>;
  readonly message?: Descriptor;
}

/** Returns the inputs with untrusted data, by name. */
function foreignInputs(
  inputs: JsonObject,
  marks: Descriptor,
  given: GivenMarks | undefined,
): ReadonlyMap<string, Value> {
  const foreign = new Map<string, Value>();
  for (const [name, data] of Object.entries(inputs)) {
    const descriptor = given ? (given.inputs.get(name) ?? EMPTY) : marks;
    if (carries(descriptor, 'untrusted')) foreign.set(name, makeValue(data, { descriptor }));
  }
  return foreign;
}

/** Facts about the opening of a thread that do not come from its directive. */
interface OpenedBy {
  /** Marks of the inputs and of the first message. Absent: a person wrote them. */
  readonly marks?: Descriptor | undefined;
  readonly given?: GivenMarks | undefined;
  readonly parent?: Thread | undefined;
  /** True if the model gets untrusted data as references. */
  readonly isReference?: boolean;
  /** Events of the files that stand before the message. */
  readonly attached?: readonly Opening[];
}

/** True for a file that a person gave to the thread. */
export const isAttached = ({ type, data }: JournalEvent): boolean =>
  (type === 'user_message' || type === 'injected_message') && data.attached !== undefined;

/** Returns the first events of a thread. The harness itself executes the directive and shows the result. */
export async function openingEvents(
  ports: HarnessPorts,
  prepared: Pick<Prepared, 'item' | 'directive' | 'inputs' | 'plan'>,
  message: string,
  { marks: carried = FROM_USER, given, parent, isReference = false, attached = [] }: OpenedBy = {},
): Promise<Outcome<Opening[]>> {
  const { directive, inputs, plan } = prepared;
  const messageMarks = packMarks((isReference && given?.message) || carried);
  const words: Opening = { type: 'user_message', data: { text: message, marks: messageMarks } };
  if (directive.agent) return ok([words, ...attached]);
  const ready = await ports.kernel.execute(
    { item_type: 'directive', item_id: prepared.item.id, parameters: inputs },
    asHarness(ports),
  );
  if (!ready.ok) return ready;
  const { descriptor } = ready.output.meta;
  const marks = packMarks(mergeDescriptors(descriptor, carried));
  const isNative = directive.model?.tools === 'native';
  const all = directive.process.script ? [] : permittedTools(ports, directive, parent);
  const tools = isReference ? await ownTools(ports, all) : all;
  const hidden = isReference ? foreignInputs(inputs, carried, given) : NO_INPUTS;
  const visible = Object.fromEntries(Object.entries(inputs).filter(([name]) => !hidden.has(name)));
  const { request, call } = injection(directive.name, visible);
  const listed = {
    ...describedTools(tools, isNative, plan !== undefined),
    ...(isReference && toolReferences(tools)),
    ...(tools.some(({ id }) => id === 'memory/search') &&
      (await memoryNote(ports, prepared, parent))),
  };
  // A directive whose own text is untrusted becomes one reference as a whole.
  const isHidden = hidden.size > 0 && !carries(descriptor, 'untrusted');
  const opened = ownDirective(
    isHidden
      ? { ...asObject(ready.output.data), directive: readyForm(directive, visible) }
      : ready.output.data,
    listed,
  );
  const content = ports.replay?.shown(opened) ?? opened;
  const events: Opening[] = [
    { type: 'user_message', data: { text: request, marks: packMarks(FROM_USER) } },
    { type: 'assistant_message', data: { content: [call], injected: true } },
    {
      type: 'tool_result',
      data: {
        call_id: call.id,
        content,
        is_error: false,
        marks,
        ...(isHidden && { given: packGiven(hidden) }),
      },
    },
    ...attached,
  ];
  if (message !== '') events.push(words);
  return ok(events);
}
