// The four verbs. Each exists once, over the table of kinds; what a kind does is its own business.
import {
  didYouMean,
  type Failure,
  fail,
  getOwn,
  isFiniteJson,
  isObject,
  type Json,
  listAt,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import {
  type Argument,
  judgeOperation,
  makeValue,
  type Operation,
  perform,
  type Value,
} from '../flow/index.ts';
import type { Catalogs, Library } from '../items/index.ts';
import type {
  Authority,
  Authorize,
  Caller,
  ExecuteRequest,
  HelpRequest,
  Kind,
  LoadRequest,
  MadeCall,
  PreparedCall,
  SearchRequest,
} from './call.ts';
import { forModels } from './rights/authority.ts';
import { FROM_STRANGER, type ItemMarks, shownFailure, type UsesItem } from './rights/item-marks.ts';
import type { LineEndpoint, OpenLine, ToolLine } from './tool/tool-line.ts';
import { giveHelp, type SignalPort } from './verbs/help.ts';
import { type CopyPort, loadItem } from './verbs/load.ts';
import { firstLine, IN_CATALOGS, searchLibrary } from './verbs/search.ts';

type CatalogPage = ReturnType<Catalogs['search']>;

export interface Kernel {
  search(request: SearchRequest, caller: Caller): Promise<Outcome<Value>>;
  load(request: LoadRequest, caller: Caller): Promise<Outcome<Value>>;
  execute(request: ExecuteRequest, caller: Caller): Promise<Outcome<Value>>;
  help(request: HelpRequest, caller: Caller): Promise<Outcome<Value>>;
}

export type Verb = keyof Kernel;

/** A tool that whoever embeds the kernel calls many times, and the right to do so now. */
interface AdmittedLine {
  readonly line: ToolLine;
  readonly authority: Authority;
}

/** For programs that build on the kernel and send to the same provider turn after turn. */
export interface EmbeddedKernel extends Kernel {
  /** Judged as the tool's operation would be, before anything goes into it. Performs nothing. */
  line(id: string, caller: Caller, endpoint?: LineEndpoint): Promise<Outcome<AdmittedLine>>;
}

interface KernelPorts {
  library: Library;
  authorize: Authorize;
  kinds: readonly Kind[];
  openLine: OpenLine;
  copies: CopyPort;
  marks: ItemMarks;
  signal?: SignalPort;
  /** A caller that carries this object is not asked about the tier of a call. Absent: every caller is asked. */
  tierExemption?: object;
  /** `source: catalog` of a search. */
  searchCatalog(request: SearchRequest): CatalogPage;
}

/** Hits of a catalog in the form of a search: not here yet, so nothing of them can run. */
const catalogAnswer = ({ hits, total }: CatalogPage) => ({
  items: hits.map(
    ({ kind, id, title, description, version, requires, signature, score, catalog }) => ({
      item_type: kind,
      item_id: id,
      title,
      summary: firstLine(description),
      version,
      source: 'catalog',
      catalog,
      signed: signature === 'signed',
      requires,
      score: Math.round(score * 1000) / 1000,
    }),
  ),
  total,
});

/** The cursor of the page of `source: all` that begins with what catalogs hold. */
const CATALOGS = 'catalogs';

/** `source: all`: what catalogs hold comes behind the last of what is here. */
function withCatalogs(
  local: Json,
  request: SearchRequest,
  search: (request: SearchRequest) => CatalogPage,
): Json {
  const items = listAt(local, 'items');
  const room = (request.limit ?? 10) - items.length;
  const found = search({ ...request, limit: Math.max(room, 1) });
  const total = Number(getOwn(local, 'total')) + found.total;
  const next = getOwn(local, 'next_cursor');
  if (next !== undefined) return { items, total, next_cursor: next };
  const more = catalogAnswer({ ...found, hits: found.hits.slice(0, room) }).items;
  const isFull = room <= 0 && found.total > 0;
  return { items: [...items, ...more], total, ...(isFull && { next_cursor: CATALOGS }) };
}

const MAX_NAME = 1000;

/** Requests come from programs and other processes too: their types are a claim until looked at. */
function requestProblem(request: ExecuteRequest | LoadRequest): Failure | undefined {
  const {
    action = '',
    parameters,
    content,
  } = request as { [name in keyof ExecuteRequest]: unknown };
  for (const name of ['item_type', 'item_id'] as const) {
    const value: unknown = request[name];
    if (value === undefined) {
      const form = '{"item_type": "tool", "item_id": "ID", "parameters": {…}}';
      return fail('invalid_input', `\`${name}\` is missing; write the call as \`${form}\``);
    }
    if (typeof value !== 'string' || value.length > MAX_NAME)
      return fail('invalid_input', `\`${name}\` must be a text of at most ${MAX_NAME} characters`);
  }
  if (typeof action !== 'string' || action.length > MAX_NAME) {
    return fail('invalid_input', '`action` must be a short text');
  }
  if (content !== undefined && typeof content !== 'string') {
    return fail('invalid_input', '`content` must be a text');
  }
  if (parameters === undefined) return undefined;
  if (!isObject(parameters)) return fail('invalid_input', '`parameters` must be an object');
  return isFiniteJson(parameters)
    ? undefined
    : fail('invalid_input', '`parameters` holds a number that is no number or too large');
}

/** Loading takes a right that reads; searching and asking for help take none. */
const operation = (verb: 'search' | 'load' | 'execute' | 'help', target: string): Operation => ({
  type: verb,
  name: verb,
  opLabels: [`op:${verb}`],
  target,
  ...(verb === 'load' && { tier: 'read' }),
});

const targetOf = ({ item_type, item_id }: ExecuteRequest | LoadRequest): string =>
  `${plainText(item_type).slice(0, MAX_NAME)}:${plainText(item_id).slice(0, MAX_NAME)}`;

function kindOf(
  kinds: ReadonlyMap<string, Kind>,
  request: ExecuteRequest,
): Outcome<{ kind: Kind; action: string }> {
  const kind = kinds.get(request.item_type);
  if (!kind) {
    const names = [...kinds.keys()];
    const hint = didYouMean(request.item_type, names) ?? `there are: ${names.join(', ')}`;
    return fail('invalid_input', `unknown item_type \`${request.item_type}\`; ${hint}`);
  }
  const action = request.action ?? kind.actions[0] ?? 'run';
  if (!kind.actions.includes(action)) {
    const hint = didYouMean(action, kind.actions) ?? `there are: ${kind.actions.join(', ')}`;
    return fail('invalid_input', `unknown action \`${action}\` for a ${kind.name}; ${hint}`);
  }
  return ok({ kind, action });
}

/** INVARIANT: also what cannot be prepared is performed, so that every call is counted and recorded. */
const unprepared = (
  verb: Parameters<typeof operation>[0],
  request: ExecuteRequest | LoadRequest,
  failure: Failure,
): PreparedCall => ({
  op: operation(verb, targetOf(request)),
  gate: () => failure,
  body: () => failure,
});

/** What was found where it writes, when it was judged by that. */
const heldTo = (inputs: readonly Argument[]): string | undefined => {
  for (const { origin } of inputs) if (origin?.holds !== undefined) return origin.holds;
  return undefined;
};

/** Returns the call without its tier, so that no person is asked about it. */
function withoutTier(call: PreparedCall): PreparedCall {
  const { tier: _, ...op } = call.op;
  return { ...call, op };
}

function quiet(caller: Caller): Caller {
  const { onOutput: _, ...rest } = caller;
  return rest;
}

const uncounted = (tool: string): Failure =>
  fail(
    'permission_denied',
    `uses of \`${tool}\` are counted for this thread, and inside another tool nobody could: call it by itself`,
    { missing: '', rule: 'uses', attempted: tool },
  );

/** The one pass of a call. Whoever has no right hears that, not what is wrong with his call. */
function act(
  { authorize, library }: Pick<KernelPorts, 'authorize' | 'library'>,
  call: PreparedCall,
  caller: Caller,
): Promise<Outcome<Value>> {
  let made: Omit<MadeCall, 'capture'> | undefined;
  return Promise.resolve(
    perform(
      call.op,
      call.inputs ?? [],
      async (values, { signal, capture, frame }) => {
        if (!made) return fail('internal_error', `\`${call.op.name}\` was not judged`);
        const { authority } = made;
        // What is said at once would be out before a guard could object to the result.
        const judged = frame.emit && made.caller.onOutput ? quiet(made.caller) : made.caller;
        const { isApproved, approved } = frame;
        const holds = heldTo(frame.inputs);
        const held = { ...(holds && { holds }), ...(approved && { approved }) };
        const speaker =
          signal || isApproved || holds !== undefined
            ? { ...judged, isApproved, ...(signal && { signal }), ...held }
            : judged;
        // A failure is recorded and told as it is here: without the folders of this machine.
        const outcome = await call.body(values, { authority, caller: speaker, capture });
        return shownFailure(library, outcome);
      },
      caller.frame,
      {
        ...caller.act,
        explain: call.explain ?? caller.act?.explain,
        async gate() {
          const speaker = caller.auth ? { ...caller, __auth: caller.auth() } : caller;
          const authority = await authorize(speaker);
          if (!authority.ok) return shownFailure(library, authority);
          made = { authority: authority.output, caller: speaker };
          // Whoever counts uses does it with the act; what is done inside another one is nobody's.
          const { type, name } = call.op;
          const isCounted = type === 'tool' && authority.output.uses?.[name] !== undefined;
          if (isCounted && !caller.act?.intent) return uncounted(name);
          return shownFailure(library, call.gate?.(authority.output) ?? ok(null));
        },
        foresee: (values) => made && call.foresee?.(values, made),
      },
    ),
  );
}

export function createKernel(ports: KernelPorts): EmbeddedKernel {
  const { library } = ports;
  const kinds = new Map(ports.kinds.map((kind) => [kind.name, kind]));
  const isExempt = ({ tierExemption }: Caller): boolean =>
    tierExemption !== undefined && tierExemption === ports.tierExemption;

  /** `search`, `load` and `help`: no item behind them, and open to whoever is known. */
  async function answer(
    verb: Parameters<typeof operation>[0],
    target: string,
    caller: Caller,
    body: (made: MadeCall, uses: UsesItem) => Promise<Outcome<Json>>,
  ): Promise<Outcome<Value>> {
    await library.refresh();
    const call: PreparedCall = {
      op: operation(verb, target),
      async body(_inputs, made) {
        const uses: UsesItem = (item) => made.capture(ports.marks.of(item));
        const found = await body(made, uses);
        return found.ok ? ok(makeValue(found.output)) : found;
      },
    };
    return await act(ports, call, caller);
  }

  return {
    search: (request, caller) =>
      answer('search', plainText(request.query), caller, async ({ authority, capture }, uses) => {
        const inCatalogs = (asked: SearchRequest): CatalogPage => {
          const found = ports.searchCatalog(asked);
          if (found.hits.some(({ signature }) => signature !== 'signed')) capture(FROM_STRANGER);
          return found;
        };
        const { source = '', cursor } = request;
        const isAll = source === 'all';
        if (IN_CATALOGS.has(source) || (isAll && cursor === CATALOGS)) {
          return ok(catalogAnswer(inCatalogs(request)));
        }
        const local = searchLibrary(library, request, authority, uses);
        return local.ok && isAll ? ok(withCatalogs(local.output, request, inCatalogs)) : local;
      }),
    async load(request, caller) {
      const odd = requestProblem(request);
      if (odd) return await act(ports, unprepared('load', request, odd), caller);
      return await answer('load', targetOf(request), caller, ({ authority }, uses) =>
        loadItem(library, request, authority, ports.copies, uses),
      );
    },
    async execute(request, caller) {
      const chosen = requestProblem(request) ?? kindOf(kinds, request);
      if (!chosen.ok) return await act(ports, unprepared('execute', request, chosen), caller);
      await library.refresh();
      const { kind, action } = chosen.output;
      const prepared = await kind.prepare({ ...request, action });
      const call = prepared.ok ? prepared.output : unprepared('execute', request, prepared);
      return await act(ports, isExempt(caller) ? withoutTier(call) : call, caller);
    },
    help: (request, caller) =>
      answer('help', plainText(request.topic ?? request.action), caller, (made, uses) =>
        giveHelp(library, request, made.caller, ports.signal, uses),
      ),
    async line(id, caller, endpoint) {
      const authority = await ports.authorize(caller);
      if (!authority.ok) return authority;
      await library.refresh();
      const found = library.find('tool', id);
      const line = found.ok ? await ports.openLine(found.output, endpoint) : found;
      if (!line.ok) return line;
      const admitted = line.output.admit(forModels(authority.output));
      if (!admitted.ok) return admitted;
      // A program that embeds the kernel asks for itself: no tier of a capability counts.
      const { tier: _, ...op } = line.output.op;
      const judged = await judgeOperation(op, caller.frame);
      return judged.ok ? ok({ line: line.output, authority: admitted.output }) : judged;
    },
  };
}
