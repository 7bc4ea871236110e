// The conversation of a thread. A message has a frame with its author, a call is one line. The page reads
// the whole message when it scrolls into view.
import { eventFlags } from '@kernmantle/core/journal';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { EventDetail, SlimEvent } from '../../model/api.ts';
import { bytes, count } from '../../model/format.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { Button } from '../parts/button.tsx';
import { Time } from '../parts/figures.tsx';
import { PiecesView } from '../parts/json-view.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { EmptyState, useResource } from '../parts/states.tsx';
import { ForeignText, MessageText } from '../parts/untrusted-text.tsx';
import { loadPiece } from './decision.tsx';
import { threadResource } from './place.ts';
import { iconOf } from './timeline-row.tsx';

/** Number of lines at first, and of more lines per click. */
const PAGE = 60;
/** Length of a preview, in characters. */
const PREVIEW = 200;
/** Size in bytes up to which a message is read when it scrolls into view. */
const BY_ITSELF = 16 * 1024;

const AUTHORS: Readonly<Record<string, string>> = {
  plan: 'The plan',
  user: 'You',
  harness: 'The harness',
  model: 'The model',
  tool: 'A tool',
  hook: 'A hook',
};

const authorOf = ({ by = 'harness' }: SlimEvent): string =>
  Object.hasOwn(AUTHORS, by) ? (AUTHORS[by] ?? by) : by;

/** Returns messages, and one line for each call and hook, in the order of the journal. */
function useLines(events: readonly SlimEvent[], rows: readonly TimelineEntry[]) {
  return useMemo(() => {
    const messages = events
      .map((event, at) => {
        // The harness wrote the first message: it names the directive.
        const isOpening = events[at - 1]?.type === 'thread_start';
        return { seq: event.seq, event: isOpening ? { ...event, by: 'harness' } : event };
      })
      .filter(
        ({ event: { type, preview, text } }) =>
          eventFlags(type).isMessage && (preview ?? text ?? '') !== '',
      )
      .map((line) => ({ ...line, row: undefined }));
    const steps = rows
      .filter(({ kind }) => kind === 'call' || kind === 'child' || kind === 'hook')
      .map((row) => ({ seq: row.seq, event: undefined, row }));
    return [...messages, ...steps].sort((a, b) => a.seq - b.seq);
  }, [events, rows]);
}

function useInSight(): [{ current: HTMLDivElement | null }, boolean] {
  const place = useRef<HTMLDivElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element || isSeen) return undefined;
    const watcher = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setSeen(true);
    });
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [isSeen]);
  return [place, isSeen];
}

/** Returns the last turn that the model no longer has in its conversation. */
const replacedUpTo = (events: readonly SlimEvent[]): number =>
  events.findLast(({ type, current }) => type === 'compaction' && current !== undefined)?.current ??
  0;

/** `isReplaced`: a compaction has replaced the message, so the model no longer sees it. */
function Message(props: { id: string; event: SlimEvent; isReplaced: boolean }) {
  const { id, event, isReplaced } = props;
  const [place, isSeen] = useInSight();
  const [isAsked, setAsked] = useState(false);
  const size = event.bytes ?? 0;
  const isDivider = event.type === 'compaction';
  const isCut = size > PREVIEW;
  const wants = isCut && (isAsked || (!isDivider && isSeen && size <= BY_ITSELF));
  const { answer } = useResource<EventDetail>(
    wants ? threadResource(id, `/events/${event.seq}`) : undefined,
  );
  const author = isDivider ? 'The harness' : authorOf(event);
  const content = answer?.ok ? answer.output.content : undefined;
  return (
    <div ref={place} class={`message by-${event.type.split('_')[0]}`}>
      <div class="message-head small flex">
        <b>{author}</b> {event.turn > 0 ? <span class="faint">turn {event.turn}</span> : null}{' '}
        <Time at={event.ts} form="clock" />
        {isReplaced ? <span class="label">not in the model’s view</span> : null}
        <LabelChips taint={event.labels ?? []} />
      </div>
      {isDivider ? <p class="dim">{event.text}</p> : null}
      {content ? (
        <PiecesView isMessage first={content} load={loadPiece(id, event.seq, 'content')} />
      ) : (
        <MessageText text={event.preview ?? (isDivider ? '' : (event.text ?? ''))} />
      )}
      {isCut && !content ? (
        <Button text={`Show all ${bytes(size)}`} class="more-link" onClick={() => setAsked(true)} />
      ) : null}
    </div>
  );
}

const OUTCOMES: Readonly<Partial<Record<TimelineEntry['state'], string>>> = {
  done: 'done',
  open: 'running',
  waits: 'waits for you',
  unknown: 'outcome unknown',
};

function StepLine({ row, onSelect }: { row: TimelineEntry; onSelect: (seq: number) => void }) {
  const isBad = row.state === 'denied' || row.state === 'failed';
  const isYou = row.state === 'waits' || row.state === 'unknown';
  const word = isBad ? `${row.state}${row.why === '' ? '' : `, ${row.why}`}` : OUTCOMES[row.state];
  return (
    <Button
      icon={iconOf(row)}
      class={`step-line ${isBad ? 'is-bad' : isYou ? 'is-you' : row.kind === 'hook' ? 'is-hook' : ''}`}
      onClick={() => onSelect(row.seq)}
    >
      <code>{row.name}</code>
      <ForeignText text={row.text} class="cut mono dim" />
      <span class="why">{word ?? ''}</span>
      <LabelChips taint={row.labels} max={2} />
    </Button>
  );
}

/** Distance from the end, in pixels, that still counts as the end. */
const END = 40;

/**
 * Scrolls to the end when the content grows, also by a message that was read later, while `follow` is
 * true. A person who scrolls up ends it, and starts it again at the end.
 */
function useFollowed(follow: boolean, onFollow: (follow: boolean) => void) {
  const box = useRef<HTMLDivElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let isOwn = false;
    const toEnd = () => {
      isOwn = true;
      element.scrollTop = element.scrollHeight;
    };
    const onScroll = () => {
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < END;
      if (!isOwn && isAtEnd !== follow) onFollow(isAtEnd);
      isOwn = false;
    };
    if (follow || isFirst.current) toEnd();
    isFirst.current = false;
    const grown = new MutationObserver(() => follow && toEnd());
    grown.observe(element, { childList: true, subtree: true, characterData: true });
    element.addEventListener('scroll', onScroll);
    return () => {
      grown.disconnect();
      element.removeEventListener('scroll', onScroll);
    };
  }, [follow]);
  return box;
}

export function Conversation(props: {
  id: string;
  events: readonly SlimEvent[];
  rows: readonly TimelineEntry[];
  /** Text of the reply that the model is writing. */
  text: string;
  /** True to keep the end of the conversation visible. */
  follow: boolean;
  onFollow: (follow: boolean) => void;
  onSelect: (seq: number) => void;
}) {
  const { id, events, rows, text, follow, onFollow, onSelect } = props;
  const lines = useLines(events, rows);
  const replaced = useMemo(() => replacedUpTo(events), [events]);
  const [most, setMost] = useState(PAGE);
  const hidden = Math.max(0, lines.length - most);
  const box = useFollowed(follow, onFollow);
  if (lines.length === 0 && text === '') return <EmptyState title="No messages yet" />;
  return (
    <div ref={box} class="talk stack" tabIndex={0} role="region" aria-label="Conversation">
      {hidden > 0 ? (
        <Button text={`Show ${count(hidden)} earlier`} onClick={() => setMost(most + PAGE * 2)} />
      ) : null}
      {lines
        .slice(hidden)
        .map(({ seq, event, row }) =>
          event ? (
            <Message
              key={seq}
              id={id}
              event={event}
              isReplaced={event.turn > 0 && event.turn <= replaced && event.type !== 'compaction'}
            />
          ) : row ? (
            <StepLine key={`${row.kind} ${seq}`} row={row} onSelect={onSelect} />
          ) : null,
        )}
      {text === '' ? null : (
        <div class="message by-assistant is-live">
          <div class="message-head small flex">
            <b>The model</b> <span class="label">live, not recorded</span>
          </div>
          <MessageText text={text} />
        </div>
      )}
    </div>
  );
}
