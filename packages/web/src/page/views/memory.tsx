// The texts that threads kept for later threads. A person reads one here and endorses it with the command.
import type { MemoryView } from '../../model/api.ts';
import { Command } from '../parts/copy.tsx';
import { Time } from '../parts/figures.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Facts } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';

type MemoryItem = MemoryView['memories'][number];

const STANDINGS: Readonly<Record<MemoryItem['standing'], readonly [tone: string, word: string]>> = {
  confirmed: ['ok', 'confirmed by a person'],
  note: ['', 'note of a model'],
  stranger: ['bad', 'from strangers'],
};

function MemoryCard({ row }: { row: MemoryItem }) {
  const { id, hash, standing, scope, owner, subject, text, thread, created, marks } = row;
  const [tone, word] = STANDINGS[standing];
  return (
    <section class="card" aria-label={`Memory ${id}`}>
      <h2>
        <span class={`pill ${tone}`}>{word}</span> <Time at={created} />
      </h2>
      <ForeignText text={text} author={subject || thread} labels={marks.taint} />
      <Facts
        facts={[
          ['scope', owner === '' ? scope : `${scope} ${owner}`],
          ['thread', <ForeignText text={thread} />],
          ['sources', <ForeignText text={marks.sources.join(', ')} />],
        ]}
      />
      {standing === 'confirmed' ? null : (
        <Command text={`km memory endorse ${id} --hash ${hash}`} />
      )}
      <Command text={`km memory forget ${id}`} />
    </section>
  );
}

export function MemoryPage() {
  const { answer, again } = useResource<MemoryView>('memory');
  const rows = answer?.ok ? answer.output.memories : [];
  return (
    <main class="page">
      <div class="head">
        <h1>Memory</h1>
      </div>
      {answer === undefined ? <LoadingRows rows={4} rowHeight={96} /> : null}
      {answer?.ok === false ? <ErrorState error={answer.error} again={again} /> : null}
      {answer?.ok && rows.length === 0 ? (
        <EmptyState title="No thread has kept a text yet" command="km memory ls" />
      ) : null}
      {rows.map((row) => (
        <MemoryCard key={row.id} row={row} />
      ))}
    </main>
  );
}
