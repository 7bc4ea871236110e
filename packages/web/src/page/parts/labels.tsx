// Labels of a value as chips. Labels that only name a source (`src:`, `dir:`) are hidden by default.
import { useState } from 'preact/hooks';
import { visibleText } from '../../model/untrusted-text.ts';

const isSource = (label: string): boolean => /^(?:src|dir):/.test(label);

/** Order of the chips. `secret` and `untrusted` come first, because rules depend on them. */
const ORDER: Readonly<Record<string, number>> = { secret: 0, untrusted: 1 };
const rank = (label: string): number => ORDER[label] ?? 2;

const Chip = ({ label }: { label: string }) => (
  <span class={`label ${label === 'secret' || label === 'untrusted' ? label : ''}`}>
    {visibleText(label, 60)}
  </span>
);

/** Shows `max` chips, and a button that shows the rest. */
export function LabelChips(props: {
  taint: readonly string[];
  showSources?: boolean;
  max?: number;
}) {
  const { taint, showSources = false, max = 4 } = props;
  const [isOpen, setOpen] = useState(false);
  const visible = taint
    .filter((label) => showSources || !isSource(label))
    .toSorted((a, b) => rank(a) - rank(b));
  const first = isOpen ? visible : visible.slice(0, max);
  return (
    <span class="labels">
      {first.map((label) => (
        <Chip key={label} label={label} />
      ))}
      {first.length < visible.length ? (
        <button type="button" class="label" onClick={() => setOpen(true)}>
          {visible.length - first.length} more
        </button>
      ) : null}
    </span>
  );
}
