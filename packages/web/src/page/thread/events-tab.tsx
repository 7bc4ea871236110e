// List of all events of the journal, one line each. The inspector shows the selected one.
import { useMemo, useState } from 'preact/hooks';
import type { SlimEvent } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import { get, type PageFault } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { Time } from '../parts/figures.tsx';
import { EmptyState, ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { VirtualList } from '../parts/virtual-list.tsx';
import { threadResource } from './place.ts';
import { useIsPhone } from './timeline.tsx';

interface FoundEvents {
  readonly seqs: readonly number[];
  readonly total: number;
  readonly isComplete: boolean;
}

function FindField(props: { id: string; onFound: (result: FoundEvents | undefined) => void }) {
  const { id, onFound } = props;
  const [words, setWords] = useState('');
  const [error, setError] = useState<PageFault>();
  const find = async () => {
    setError(undefined);
    if (words.trim() === '') {
      onFound(undefined);
      return;
    }
    const query = `/find?q=${encodeURIComponent(words)}&limit=500`;
    const answer = await get<FoundEvents>(threadResource(id, query));
    if (answer.ok) onFound(answer.output);
    else setError(answer.error);
  };
  return (
    <form
      class="find-events"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        void find();
      }}
    >
      <label>
        <span class="unseen">Find in events</span>
        <input
          type="search"
          class="field"
          placeholder="find in events"
          value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            if (event.currentTarget.value === '') onFound(undefined);
          }}
        />
      </label>
      <Button text="Find" type="submit" />
      {error ? <ErrorState error={error} /> : null}
    </form>
  );
}

const Cells = ({ event }: { event: SlimEvent }) => (
  <>
    <span class="t" role="gridcell">
      {event.seq}
    </span>
    <span class="w" role="gridcell">
      <code class={event.unreadable ? 'bad' : ''}>{event.type}</code>
      <ForeignText
        text={event.unreadable ? 'cannot be read' : (event.text ?? event.preview ?? '')}
        class="args cut"
      />
    </span>
    <span class="labels" role="gridcell">
      <span class="faint">{event.turn > 0 ? `turn ${event.turn}` : ''}</span>
    </span>
    <span class="d" role="gridcell" />
    <span class="lane" role="gridcell">
      <Time at={event.ts} form="exact" />
    </span>
  </>
);

export function EventsTab(props: {
  id: string;
  events: readonly SlimEvent[];
  at: number | undefined;
  isWhole: boolean;
  onSelect: (seq: number) => void;
  onBefore: () => void;
}) {
  const { id, events, at, isWhole, onSelect } = props;
  const [result, setResult] = useState<FoundEvents>();
  const isPhone = useIsPhone();
  const visible = useMemo(() => {
    if (!result) return events;
    const seqs = new Set(result.seqs);
    return events.filter(({ seq }) => seqs.has(seq));
  }, [events, result]);
  const selected = at === undefined ? -1 : visible.findIndex(({ seq }) => seq === at);
  return (
    <div class="timeline stack events">
      <div class="event-bar">
        <FindField id={id} onFound={setResult} />
        <span class="faint">
          {result
            ? `${result.isComplete ? '' : 'first '}${count(visible.length)}${result.isComplete ? '' : ` of ${count(result.total)} or more`}`
            : `${count(events.length)} events`}
        </span>
        {isWhole ? null : <Button text="Load earlier events" onClick={props.onBefore} />}
      </div>
      {visible.length === 0 ? (
        <EmptyState title={result ? 'No event matches' : 'No events yet'} />
      ) : (
        <VirtualList
          label="Events"
          count={visible.length}
          rowHeight={isPhone ? 40 : 27}
          keyOf={(index) => String(visible[index]?.seq ?? index)}
          row={(index) => {
            const event = visible[index];
            return event ? <Cells event={event} /> : null;
          }}
          {...(selected >= 0 ? { selected } : {})}
          onSelect={(index) => {
            const event = visible[index];
            if (event) onSelect(event.seq);
          }}
        />
      )}
    </div>
  );
}
