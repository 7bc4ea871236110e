// Makes room in the context window of a thread. Old results become references to the journal first. If that is not
// enough, a message of the harness with facts and a summary takes the place of old turns. One event records a pass,
// and it alone determines the conversation of a resumed thread.
import { getOwn, type Json, type Outcome, ok } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeAll } from '../../flow/index.ts';
import {
  clearedResult,
  compactionText,
  type DataOf,
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
import { runTurn } from '../turn/turn.ts';
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
type PassData = { -readonly [field in keyof DataOf<'compaction'>]: DataOf<'compaction'>[field] };

/** Window of a thread that knows none, for a pass that a person or the model requests. */
const UNKNOWN: Window = { whole: 200_000, usable: 190_000 };
/** A result of the last turn above this number of characters becomes a reference if nothing else helps. */
const LARGE_RESULT = 2000;
const MAX_NOTE = 2000;
const MARK_BYTES = 12;

const factsByTalk = new WeakMap<Talk, Facts>();

const jsonLength = (messages: readonly Message[]): number => JSON.stringify(messages).length;

const isUnknown = (content: Json): boolean =>
  getOwn(getOwn(content, 'error'), 'code') === 'outcome_unknown';

/** One pass over the conversation of a thread. */
class Pass {
  readonly data: PassData;
  readonly window: Window;
  readonly #thread: Thread;
  readonly #need: RoomNeed;
  #note: { readonly text: string; readonly marks: Descriptor } | undefined;

  constructor(thread: Thread, need: RoomNeed) {
    const { request } = need;
    const before = nextInput(thread);
    [this.#thread, this.#need] = [thread, need];
    this.window = windowOf(thread) ?? UNKNOWN;
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
    const { does, keep } = await raiseCompaction(this.#thread, {
      name: 'before_step',
      kind: 'compact',
      step: passName(number),
      turn: journal.turn,
      asked,
      tokens: before,
      window: this.window.whole,
    });
    this.#note = keep && { text: keep.text.slice(0, MAX_NOTE), marks: keep.marks };
    // A request that does not fit cannot wait.
    if (does !== 'skip' || before > this.window.usable) return false;
    deferPass(talk.room, journal.turn);
    return true;
  }

  /** Asks the hooks after the pass. Returns true if one of them wants another pass. */
  async isRepeated(): Promise<boolean> {
    const { number, tier, before, after } = this.data;
    const step = passName(number);
    const { turn } = this.#thread.journal;
    const result = { tier, before, after };
    const event = { name: 'after_step', kind: 'compact', step, turn, result } as const;
    return (await raiseCompaction(this.#thread, event)).does === 'again';
  }

  /** Makes the pass and records it. Returns a turn if a signal stopped it. */
  async run(between: Between): Promise<Turn | undefined> {
    const { ports, place, talk, budget, journal } = this.#thread;
    const { data, window } = this;
    const { request, isForced } = this.#need;
    const figures = figuresOf(ports);
    const { value: mode, keep } = budget.limits.context_compact;
    const read = await this.#readWindow();
    if (!read.ok) {
      const { code, detail } = read.error;
      return { ending: { status: 'interrupted', reason: detail.message, code } };
    }
    data.marks = packMarks(mergeAll([talk.conversation.ownMarks(), ...this.#otherMarks()]));
    const old = this.#clearable(keep, figures.result_characters);
    const isWorth = old.freed >= bytesFor(figures.frees * window.usable, talk.ratio);
    if (isWorth || (mode === 'results' && isForced && old.seqs.length > 0)) {
      data.cleared = old.seqs;
      this.#apply();
    }
    const isEnough = data.cleared !== undefined && data.after <= figures.enough * window.usable;
    if (request || (mode === 'auto' && !isEnough)) {
      const room = bytesFor(figures.kept * window.usable, talk.ratio);
      const upto = this.#lastReplaced(keep, room);
      const stopped =
        upto === undefined ? undefined : await this.#replace(upto, read.output, between);
      if (stopped) return stopped;
    }
    if (mode !== 'off' && data.after > window.usable) this.#squeeze();
    // Facts and figures rest on data that a replay does not have.
    const next = ports.replay?.rest(place.id).find(({ type }) => type === 'compaction');
    if (next?.type === 'compaction')
      [data.before, data.after] = [next.data.before, next.data.after];
    const event = { type: 'compaction', data } as const;
    budget.meter.countCompaction();
    journal.note(event, { cost: packCost(budget.meter.read()) });
    changeRoom(talk.room, event, journal.turn);
    return undefined;
  }

  #otherMarks(): Descriptor[] {
    const { focus } = this.#need.request ?? {};
    return [this.#note?.marks ?? EMPTY, focus ? unpackMarks(focus.marks) : EMPTY];
  }

  /** Changes the conversation. It changes before the journal is written, in the same synchronous stretch. */
  #apply(): void {
    this.#thread.talk.conversation.compact(this.data);
    this.data.after = nextInput(this.#thread);
  }

  /** Reads the events since the last pass, for the facts and for the numbers of results. */
  async #readWindow(): Promise<Outcome<{ facts: Facts; events: readonly Recorded[] }>> {
    const { ports, talk, place, journal } = this.#thread;
    const facts = factsByTalk.get(talk) ?? new Facts(targetKind(ports));
    factsByTalk.set(talk, facts);
    await journal.flush();
    const read = await readJournal(ports.store, place.id, undefined, facts.seq);
    if (!read.ok) return read;
    facts.add(read.output);
    const results = read.output.flatMap((event) =>
      event.type === 'tool_result' ? [{ seq: event.seq, id: event.data.call_id }] : [],
    );
    talk.conversation.numberResults(results);
    return ok({ facts, events: read.output });
  }

  /** Returns the last turn that a summary can replace. The turns after it have at most this number of bytes. */
  #lastReplaced(keep: number, bytes: number): number | undefined {
    const { conversation } = this.#thread.talk;
    const turns = conversation.turns();
    for (let count = Math.min(keep, turns.length - 1); count >= 1; count--) {
      const upto = turns[turns.length - count - 1];
      if (upto === undefined) continue;
      if (count === 1 || jsonLength(conversation.since(upto).after) <= bytes) return upto;
    }
    return undefined;
  }

  /** Returns the results before the last `keep` turns that can become references, and the bytes that this frees. */
  #clearable(keep: number, above: number): { seqs: number[]; freed: number } {
    const { conversation } = this.#thread.talk;
    const end = keep === 0 ? Number.POSITIVE_INFINITY : (conversation.turns().at(-keep) ?? 0);
    const seqs: number[] = [];
    let freed = 0;
    for (const { block, tool, turn, seq } of conversation.results()) {
      const size = JSON.stringify(block.content).length;
      const isFixed = seq === undefined || turn === 0 || turn >= end || tool === 'help';
      if (isFixed || size <= above || isUnknown(block.content)) continue;
      seqs.push(seq);
      freed += size - JSON.stringify(clearedResult(seq, tool, block.content)).length;
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
    const { data, window } = this;
    const { conversation, room, ratio } = talk;
    const { replaced } = conversation.since(upto);
    const isLeftOut = room.last.rejected !== undefined && this.#need.request === undefined;
    const summary = isLeftOut
      ? { rejected: '' }
      : (recordedSummary(events, data.number) ?? (await this.#ask(replaced, between)));
    if ('turn' in summary) return summary.turn;
    const next = ports.replay?.rest(place.id).find(({ type }) => type === 'compaction');
    const most = bytesFor(figuresOf(ports).facts * window.usable, ratio);
    const current = shownFacts(this.#thread, facts, most, this.#note?.text);
    data.facts = (next?.type === 'compaction' && next.data.facts) || current;
    const { spend, model } = summary;
    Object.assign(data, { tier: 'facts', upto }, spend && { spend }, model && { model });
    const past =
      room.last.upto === undefined
        ? 0
        : compactionText({ ...data, summary: room.last.summary ?? '' }).length;
    const size = past + jsonLength(replaced);
    if ('text' in summary) {
      const { length } = compactionText({ ...data, summary: summary.text });
      if (length <= size / 2) Object.assign(data, { tier: 'summary', summary: summary.text });
      else
        data.rejected = `its message has ${length} characters, at most ${Math.floor(size / 2)} are useful`;
    } else if (summary.rejected !== '') data.rejected = summary.rejected;
    if (compactionText(data).length < size) this.#apply();
    else {
      // Nothing would be gained, so the turns stay.
      for (const field of ['upto', 'facts', 'summary'] as const) delete data[field];
      data.tier = 'results';
    }
    return undefined;
  }

  #model(): Outcome<Pick<Talk, 'model' | 'price'>> {
    const { ports, talk, budget } = this.#thread;
    const name = summaryModel(ports);
    if (name !== undefined) return priced(ports, modelFor(ports, name), budget.limits);
    return ok({ model: talk.model, price: talk.price });
  }

  /** Asks a model for the summary, in a conversation of its own. A request that fails gives none. */
  async #ask(replaced: readonly Message[], between: Between): Promise<Summary | { turn: Turn }> {
    const { ports, talk, budget, control, journal } = this.#thread;
    const system = shippedInstruction(ports, 'system/compaction_prompt');
    const model = this.#model();
    if (!system.ok) return { rejected: system.error.detail.message };
    if (!model.ok) return { rejected: model.error.detail.message };
    const { whole } = this.window;
    const mark = `=====${Buffer.from(ports.random(MARK_BYTES)).toString('hex')}=====`;
    const turns = renderedTurns(replaced, bytesFor(whole / 2, talk.ratio));
    const prompt = summaryPrompt(mark, turns, talk.room.last.summary, this.#need.request);
    const conversation = new Conversation();
    conversation.user(prompt, mergeAll([talk.conversation.ownMarks(), ...this.#otherMarks()]));
    const { references: _, ...own } = talk;
    const apart: Talk = {
      ...own,
      ...model.output,
      conversation,
      system: system.output,
      ratio: undefined,
      fallback: undefined,
      triedModels: new Set(),
      tools: [],
      compact: {
        number: this.data.number,
        most: Math.min(figuresOf(ports).summary_tokens, Math.floor(whole / 8)),
      },
    };
    const { spend } = budget.meter.read();
    const turn = await runTurn({ ...this.#thread, talk: apart });
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
    const { data } = this;
    const upto = this.#lastReplaced(1, 0);
    if (data.upto !== undefined && upto !== undefined && upto > data.upto) {
      data.upto = upto;
      this.#apply();
    }
    if (data.after <= this.window.usable) return;
    const { seqs } = this.#clearable(0, LARGE_RESULT);
    if (seqs.length === 0) return;
    data.cleared = [...(data.cleared ?? []), ...seqs];
    this.#apply();
  }
}

/** Ends the run at the limit `context`, with the sizes of the parts that no pass removes. */
async function endTooLarge(thread: Thread, { usable }: Window): Promise<Turn | undefined> {
  const { talk, journal, control } = thread;
  const { conversation, system, opening } = talk;
  const input = nextInput(thread);
  const begin = opening.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0);
  const limit = limitEvent('context', BigInt(input), BigInt(Math.floor(usable)));
  const { error } = limitFault(limit, BigInt(input));
  error.detail.message = `the next request has about ${input} tokens, and the window has room for ${Math.floor(usable)}: system text ${system.length} characters, directive ${begin}, kept turns ${jsonLength(conversation.since(-1).after)}, all messages ${conversation.bytes()}; shorten the directive, or use a model with a larger window`;
  const step = { kind: 'turn', turn: journal.turn + 1 } as const;
  const verdict = await raise(thread, { name: 'limit', fault: error, arguments: [] }, step);
  if (verdict?.action === 'retry') return undefined;
  const { code, detail } = error;
  const ending = control.ending ?? { status: 'limit', reason: '', code };
  if (ending.code === code) control.ending = { ...ending, reason: detail.message };
  return { ending: control.ending ?? ending };
}

/** Continues the hook that a lost process asked after a pass. Returns false if there is none. */
async function resumeLostHook(thread: Thread): Promise<boolean> {
  const { hooks, ports, place, journal } = thread;
  const lost = [...hooks.pending.values()].find(
    ({ step, event }) => isPassName(step) && event === 'after_step',
  );
  if (!lost) return false;
  const read = await readJournal(ports.store, place.id, ['compaction']);
  const last = read.ok ? read.output.at(-1) : undefined;
  if (last?.type !== 'compaction') return false;
  const { number, tier, before, after } = last.data;
  const result = { tier, before, after };
  const event = { name: 'after_step', kind: 'compact', step: passName(number), result } as const;
  await raiseCompaction(thread, { ...event, turn: journal.turn });
  return true;
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
  const { control, budget } = thread;
  const ended = (): Turn | undefined => control.ending && { ending: control.ending };
  if (await resumeLostHook(thread)) return ended() ?? { again: true };
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
  return await endTooLarge(thread, window);
}
