// The texts that threads kept for later threads. A person reads one here, and endorses or removes it.
import { useState } from 'preact/hooks';
import type { MemoryView } from '../../model/api.ts';
import { type PageFault, post } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { Time } from '../parts/figures.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Facts } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { may } from '../state/session.ts';

type MemoryItem = MemoryView['memories'][number];

const STANDINGS: Readonly<Record<MemoryItem['standing'], readonly [tone: string, word: string]>> = {
  confirmed: ['ok', 'confirmed by a person'],
  note: ['', 'note of a model'],
  stranger: ['bad', 'from strangers'],
};

function MemoryCard({ row, again }: { row: MemoryItem; again: () => void }) {
  const [fault, setFault] = useState<PageFault>();
  const { id, hash, standing, scope, owner, subject, text, thread, created, marks } = row;
  const [tone, word] = STANDINGS[standing];
  async function act(verb: string, body: { hash?: string } = {}): Promise<void> {
    const done = await post(`memory/${encodeURIComponent(id)}/${verb}`, body);
    setFault(done.ok ? undefined : done.error);
    again();
  }
  return (
    <section class="card memory-row" aria-label={`Memory ${id}`}>
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
      <div class="acts">
        {standing === 'confirmed' || !may('approve') ? null : (
          <Button text="Endorse this text" onClick={() => void act('endorse', { hash })} />
        )}
        {may('steer') ? <Button text="Forget" onClick={() => void act('forget')} /> : null}
      </div>
      {fault ? <ErrorState error={fault} /> : null}
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
        <MemoryCard key={row.id} row={row} again={again} />
      ))}
    </main>
  );
}
