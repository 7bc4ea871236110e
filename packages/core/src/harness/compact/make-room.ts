// Makes room in the context window of a thread. Old results become references to the journal first. If that is not
// enough, a message of the harness with facts and a summary takes the place of old turns. One event records a pass,
// and it alone determines the conversation of a resumed thread.
import { getOwn, type Outcome, ok } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeAll } from '../../flow/index.ts';
import {
  type Compaction,
  clearedResult,
  compactionText,
  packMarks,
  type Recorded,
  readJournal,
  unpackMarks,
} from '../../journal/index.ts';
import { formatMoney, type Message } from '../../llm/index.ts';
import { raise, raiseCompaction } from '../hooks/raise-checkpoint.ts';
import { packCost } from '../limits/cost.ts';
import { limitEvent, limitFault } from '../limits/limit.ts';
import type { Ending, Turn } from '../loop.ts';
import { modelFor, priced } from '../thread/choose-model.ts';
import { Conversation } from '../thread/conversation.ts';
import { changeRoom, deferPass, isPassName, passName } from '../thread/room.ts';
import { shippedInstruction } from '../thread/shipped-text.ts';
import type { Talk, Thread } from '../thread/thread.ts';
import { runApart } from '../turn/turn.ts';
import { Facts, shownFacts, targetKind } from './facts.ts';
import {
  bytesFor,
  figuresOf,
  nextInput,
  type RoomNeed,
  summaryModel,
  type Window,
  windowOf,
} from './room.ts';
import {
  judgeSummary,
  recordedSummary,
  renderedTurns,
  type Summary,
  summaryPrompt,
} from './summary.ts';

type Between = () => Promise<Ending | undefined>;
type Parts = ReturnType<Conversation['parts']>;

/** Window of a thread that knows none, for a pass that a person or the model requests. */
const UNKNOWN: Window = { whole: 200_000, usable: 190_000 };
/** A result of the last turn above this number of characters becomes a reference if nothing else helps. */
const LARGE_RESULT = 2000;
const MAX_NOTE = 2000;
const MARK_BYTES = 12;

const factsByTalk = new WeakMap<Talk, Facts>();

const bytesIn = (parts: Parts): number => parts.reduce((sum, { bytes }) => sum + bytes, 0);

/** Returns the turns that a pass can replace or keep, the oldest first. */
const turnsIn = (parts: Parts): number[] => [
  ...new Set(parts.flatMap(({ turn, isNote }) => (turn === 0 || isNote ? [] : [turn]))),
];

/** One pass over the conversation of a thread. */
class Pass {
  data: Compaction;
  readonly #window: Window;
  readonly #thread: Thread;
  readonly #need: RoomNeed;
  /** Text and marks that the facts must contain, from a hook. */
  #note: { readonly text: string; readonly marks: Descriptor } | undefined;

  constructor(thread: Thread, need: RoomNeed) {
    const { request } = need;
    const before = nextInput(thread);
    [this.#thread, this.#need] = [thread, need];
    this.#window = windowOf(thread) ?? UNKNOWN;
    this.data = {
      number: thread.talk.room.passes + 1,
      tier: 'results',
      asked: request?.from ?? 'harness',
      ...(request && { by: request.by }),
      marks: packMarks(EMPTY),
      before,
      after: before,
    };
  }

  /** Asks the hooks before the pass. Returns true if it must not run now. */
  async isDeferred(): Promise<boolean> {
    const { talk, journal } = this.#thread;
    const { number, asked, before } = this.data;
    const { whole, usable } = this.#window;
    const {
      does,
      keep,
      marks = EMPTY,
    } = await raiseCompaction(this.#thread, {
      name: 'before_step',
      kind: 'compact',
      step: passName(number),
      turn: journal.turn,
      asked,
      tokens: before,
      window: whole,
    });
    if (typeof keep === 'string' && keep !== '')
      this.#note = { text: keep.slice(0, MAX_NOTE), marks };
    // A request that does not fit cannot wait.
    if (does !== 'skip_step' || before > usable) return false;
    deferPass(talk.room, journal.turn);
    return true;
  }

  /** Asks the hooks after a pass. Returns true if one of them wants another pass. */
  async isRepeated({ number, tier, before, after }: Compaction = this.data): Promise<boolean> {
    const { turn } = this.#thread.journal;
    const result = { tier, before, after };
    const event = { name: 'after_step', kind: 'compact', turn, result } as const;
    const answer = raiseCompaction(this.#thread, { ...event, step: passName(number) });
    return (await answer).does === 'repeat_step';
  }

  /** Makes the pass and records it. Returns a turn if a signal stopped it. */
  async run(between: Between): Promise<Turn | undefined> {
    const { ports, talk, budget, journal } = this.#thread;
    const { usable } = this.#window;
    const { request, isForced } = this.#need;
    const figures = figuresOf(ports);
    const { value: mode, keep } = budget.limits.context_compact;
    const read = await this.#readEvents();
    if (!read.ok) {
      const { code, detail } = read.error;
      return { ending: { status: 'interrupted', reason: detail.message, code } };
    }
    this.data = { ...this.data, marks: packMarks(this.#marks()) };
    const old = this.#clearable(keep, figures.result_characters);
    const isWorth = old.freed >= bytesFor(figures.frees * usable, talk.ratio);
    if (isWorth || (mode === 'results' && isForced && old.seqs.length > 0))
      this.#apply({ cleared: old.seqs });
    const isEnough = this.data.cleared && this.data.after <= figures.enough * usable;
    if (request || (mode === 'auto' && !isEnough)) {
      const upto = this.#lastReplaced(keep, bytesFor(figures.kept * usable, talk.ratio));
      const turn = upto === undefined ? undefined : await this.#replace(upto, read.output, between);
      if (turn) return turn;
    }
    if (mode !== 'off' && this.data.after > usable) this.#squeeze();
    const event = { type: 'compaction', data: this.data } as const;
    budget.meter.countCompaction();
    journal.note(event, { cost: packCost(budget.meter.read()) });
    changeRoom(talk.room, event, journal.turn);
    return undefined;
  }

  /** Returns the marks of everything that the pass reads. */
  #marks(): Descriptor {
    const { focus } = this.#need.request ?? {};
    const others = [this.#note?.marks ?? EMPTY, unpackMarks(focus?.marks)];
    return mergeAll([this.#thread.talk.conversation.ownMarks(), ...others]);
  }

  /** Changes the conversation. It changes before the journal is written, in the same synchronous stretch. */
  #apply(change: Partial<Compaction>): void {
    this.data = { ...this.data, ...change };
    this.#thread.talk.conversation.compact(this.data);
    this.data = { ...this.data, after: nextInput(this.#thread) };
  }

  /** Reads the events since the last pass, for the facts and for the numbers of results. */
  async #readEvents(): Promise<Outcome<{ facts: Facts; events: readonly Recorded[] }>> {
    const { ports, talk, place, journal } = this.#thread;
    const facts =
      factsByTalk.get(talk) ?? new Facts(targetKind(ports), talk.references !== undefined);
    factsByTalk.set(talk, facts);
    await journal.flush();
    const read = await readJournal(ports.store, place.id, undefined, facts.seq);
    if (!read.ok) return read;
    facts.add(read.output);
    talk.conversation.numberResults(read.output);
    return ok({ facts, events: read.output });
  }

  /** Returns the last turn that a summary can replace. The turns after it have at most this number of bytes. */
  #lastReplaced(keep: number, bytes: number): number | undefined {
    const parts = this.#thread.talk.conversation.parts();
    const turns = turnsIn(parts).slice(-keep - 1, -1);
    const isSmall = (upto: number): boolean =>
      bytesIn(parts.filter(({ turn }) => turn > upto)) <= bytes;
    return turns.find(isSmall) ?? turns.at(-1);
  }

  /** Returns the results before the last `keep` turns that can become references, and the bytes that this frees. */
  #clearable(keep: number, above: number): { seqs: number[]; freed: number } {
    const parts = this.#thread.talk.conversation.parts();
    const end = keep === 0 ? Number.POSITIVE_INFINITY : (turnsIn(parts).at(-keep) ?? 0);
    const seqs: number[] = [];
    let freed = 0;
    for (const { content, bytes, tool, turn, seq } of parts) {
      const [block] = content;
      const isFixed = seq === undefined || turn === 0 || turn >= end || tool === 'help';
      if (isFixed || tool === undefined || block?.type !== 'tool_result') continue;
      const code = getOwn(getOwn(block.content, 'error'), 'code');
      if (code === 'outcome_unknown' || JSON.stringify(block.content).length <= above) continue;
      seqs.push(seq);
      freed += bytes - JSON.stringify(clearedResult(seq, tool, block.content)).length;
    }
    return { seqs, freed };
  }

  /** Replaces the turns up to `upto`. The summary is left out if it is missing, empty or too long. */
  async #replace(
    upto: number,
    { facts, events }: { facts: Facts; events: readonly Recorded[] },
    between: Between,
  ): Promise<Turn | undefined> {
    const { ports, place, talk } = this.#thread;
    const replaced = talk.conversation.parts().filter(({ turn }) => turn > 0 && turn <= upto);
    const isLeftOut = talk.room.isRejected && !this.#need.request;
    const result: Summary | { turn: Turn } = isLeftOut
      ? {}
      : (recordedSummary(events, this.data.number) ?? (await this.#ask(replaced, between)));
    if ('turn' in result) return result.turn;
    // Facts rest on data that a replay does not have.
    const next = ports.replay?.rest(place.id).find(({ type }) => type === 'compaction');
    const most = bytesFor(figuresOf(ports).facts * this.#window.usable, talk.ratio);
    const current = shownFacts(this.#thread, facts, most, this.#note?.text);
    const own = { upto, facts: (next?.type === 'compaction' && next.data.facts) || current };
    const { text, ...paid } = result;
    const [size, whole] = [bytesIn(replaced), { ...this.data, ...own }];
    const length = compactionText({ ...whole, summary: text ?? '' }).length;
    const isLong = length > size / 2;
    const rejected = `its message has ${length} characters, at most ${Math.floor(size / 2)} are useful`;
    const about = { ...paid, ...(text !== undefined && isLong && { rejected }) };
    if (text !== undefined && !isLong)
      this.#apply({ ...own, ...about, tier: 'summary', summary: text });
    else if (compactionText(whole).length < size) this.#apply({ ...own, ...about, tier: 'facts' });
    // Nothing would be gained, so the turns stay.
    else this.data = { ...this.data, ...about };
    return undefined;
  }

  #model(): Outcome<Pick<Talk, 'model' | 'price'>> {
    const { ports, talk, budget } = this.#thread;
    const name = summaryModel(ports);
    return name === undefined ? ok(talk) : priced(ports, modelFor(ports, name), budget.limits);
  }

  /** Asks a model for the summary, in a conversation of its own. A request that fails gives none. */
  async #ask(
    replaced: readonly (Message & { isNote?: true })[],
    between: Between,
  ): Promise<Summary | { turn: Turn }> {
    const { ports, talk, budget, control, journal } = this.#thread;
    const system = shippedInstruction(ports, 'system/compaction_prompt');
    const model = this.#model();
    if (!system.ok) return { rejected: system.error.detail.message };
    if (!model.ok) return { rejected: model.error.detail.message };
    const { whole } = this.#window;
    const mark = `=====${Buffer.from(ports.random(MARK_BYTES)).toString('hex')}=====`;
    const turns = renderedTurns(
      replaced.filter(({ isNote }) => !isNote),
      bytesFor(whole / 2, talk.ratio),
    );
    const conversation = new Conversation();
    const prompt = summaryPrompt(mark, turns, talk.room.summary, this.#need.request);
    conversation.user(prompt, this.#marks());
    const most = Math.min(figuresOf(ports).summary_tokens, Math.floor(whole / 8));
    const { spend } = budget.meter.read();
    const turn = await runApart(this.#thread, {
      model: model.output.model,
      price: model.output.price,
      conversation,
      system: system.output,
      compact: { number: this.data.number, most },
    });
    if ('reply' in turn) {
      return { ...judgeSummary(turn.reply), spend: formatMoney(budget.meter.read().spend - spend) };
    }
    if ('ending' in turn) {
      const isOver = control.ending !== undefined || journal.lost() !== undefined;
      return isOver ? { turn } : { rejected: turn.ending.reason };
    }
    const ending = await between();
    // A person broke the request off.
    if (!ending) talk.room.lastTurn = journal.turn;
    return { turn: ending ? { ending } : { again: true } };
  }

  /** Frees what is possible besides: only the last turn stays, and its large results become references. */
  #squeeze(): void {
    const { upto, cleared = [] } = this.data;
    const last = this.#lastReplaced(1, 0);
    if (upto !== undefined && last !== undefined && last > upto) this.#apply({ upto: last });
    if (this.data.after <= this.#window.usable) return;
    const { seqs } = this.#clearable(0, LARGE_RESULT);
    if (seqs.length > 0) this.#apply({ cleared: [...cleared, ...seqs] });
  }
}

/** Ends the run at the limit `context`, with the sizes of the parts that no pass removes. */
async function endTooLarge(thread: Thread, usable: number): Promise<Turn | undefined> {
  const { talk, journal, control } = thread;
  const parts = talk.conversation.parts();
  const input = nextInput(thread);
  const [opening, kept] = [0, 1].map((least) =>
    bytesIn(parts.filter(({ turn }) => Math.min(turn, 1) === least)),
  );
  const limit = limitEvent('context', BigInt(input), BigInt(Math.floor(usable)));
  const { error } = limitFault(limit, BigInt(input));
  error.detail.message = `the next request has about ${input} tokens, and the window has room for ${Math.floor(usable)}: system text ${talk.system.length} characters, directive ${opening}, facts and kept turns ${kept}; shorten the directive, or use a model with a larger window`;
  const step = { kind: 'turn', turn: journal.turn + 1 } as const;
  const verdict = await raise(thread, { name: 'limit', fault: error, arguments: [] }, step);
  if (verdict?.action === 'retry') return undefined;
  const { code, detail } = error;
  const ending = control.ending ?? { status: 'limit', reason: '', code };
  control.ending = ending.code === code ? { ...ending, reason: detail.message } : ending;
  return { ending: control.ending };
}

/**
 * Makes room before a turn. Returns the turn of an ending, `again` if signals must be handled first, or `undefined`
 * if the turn can begin.
 */
export async function makeRoom(
  thread: Thread,
  first: RoomNeed,
  between: Between,
): Promise<Turn | undefined> {
  const { control, budget, hooks, talk } = thread;
  const ended = (): Turn | undefined => control.ending && { ending: control.ending };
  const { last } = talk.room;
  const isLost = [...hooks.pending.values()].some(
    ({ step, event }) => isPassName(step) && event === 'after_step',
  );
  // A lost process asked a hook after the last pass.
  if (isLost && last) {
    await new Pass(thread, first).isRepeated(last);
    return ended() ?? { again: true };
  }
  let need: RoomNeed | undefined = first;
  for (let count = 0; need && count < 2; count++) {
    const pass = new Pass(thread, need);
    const isDeferred = await pass.isDeferred();
    if (control.ending || isDeferred) return ended();
    const stopped = await pass.run(between);
    if (stopped) return stopped;
    need = (await pass.isRepeated()) ? { isForced: true } : undefined;
    if (control.ending) return ended();
  }
  const window = windowOf(thread);
  const isOff = budget.limits.context_compact.value === 'off';
  if (!window || isOff || nextInput(thread) <= window.usable) return undefined;
  return await endTooLarge(thread, window.usable);
}
