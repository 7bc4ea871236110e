// Bar at the top of every page: current view, links, number of pending approvals, state of the
// connection. On a phone a button with the count opens the links.
import { useEffect, useState } from 'preact/hooks';
import { count } from '../../model/format.ts';
import { Link, route } from '../router.tsx';
import { Button } from './button.tsx';

interface BarCounts {
  readonly at_work: number;
  readonly due: number;
}
type ConnectionWord = 'connecting' | 'live' | 'lost' | 'over';

const LINKS = [
  ['', 'Threads'],
  ['approvals', 'Approvals'],
  ['cost', 'Cost'],
  ['items', 'Items'],
  ['scripts', 'Scripts'],
  ['memory', 'Memory'],
  ['schedules', 'Schedules'],
  ['fleet', 'Fleet'],
  ['health', 'Health'],
] as const;

const WORDS: Readonly<Record<ConnectionWord, string>> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'not connected',
  over: 'session ended',
};

const Due = ({ due }: { due: number }) =>
  due > 0 ? <span class="count due">{count(due)}</span> : null;

function Links({ counts, fleet }: { counts: BarCounts; fleet: boolean }) {
  const [word = ''] = route.value.parts;
  return LINKS.filter(([path]) => fleet || path !== 'fleet').map(([path, name]) => (
    <Link key={path} to={`/${path}`} current={word === path || (path === '' && word === 't')}>
      {name}{' '}
      {path === '' && counts.at_work > 0 ? (
        <span class="count">{count(counts.at_work)}</span>
      ) : null}
      {path === 'approvals' ? <Due due={counts.due} /> : null}
    </Link>
  ));
}

export const Brand = () => (
  <span class="brand flex">
    <svg viewBox="0 0 18 18" fill="none" aria-hidden="true">
      <circle cx="9" cy="9" r="7.6" stroke="var(--text)" stroke-width="1.5" />
      <circle cx="9" cy="9" r="3" fill="var(--you)" />
    </svg>
    kernmantle
  </span>
);

export function AppBar(props: {
  project: string;
  /** True if workers run the threads. */
  fleet: boolean;
  counts: BarCounts;
  connection: ConnectionWord;
  onFind: () => void;
  onKeys: () => void;
  onTheme: () => void;
}) {
  const { project, fleet, counts, connection } = props;
  const [isOpen, setOpen] = useState(false);
  const { path } = route.value;
  useEffect(() => setOpen(false), [path]);
  return (
    <header class="top flex">
      <Brand />
      <span class="project dim cut">{project}</span>
      <nav aria-label="Main" id="main-menu" class={isOpen ? 'is-open' : ''}>
        <Links counts={counts} fleet={fleet} />
        <Button text="Find" class="in-menu" onClick={props.onFind} />
        <Button text="Switch theme" class="in-menu" onClick={props.onTheme} />
      </nav>
      <Button icon="find" class="find faint flex" onClick={props.onFind}>
        <span>Find a thread, call, item</span>
        <kbd>/</kbd>
      </Button>
      <span class={`live dim nowrap flex is-${connection}`} role="status">
        <span class="dot" />
        {WORDS[connection]}
      </span>
      <Button
        icon="theme"
        class="btn only wide-only"
        aria-label="Switch the theme: light, dark or system"
        title="Switch the theme (t)"
        onClick={props.onTheme}
      />
      <Button
        text="?"
        class="btn only wide-only"
        aria-label="Show keys"
        title="Show keys (?)"
        onClick={props.onKeys}
      />
      <Button
        icon={isOpen ? 'x' : 'list'}
        class="btn menu"
        aria-expanded={isOpen}
        aria-controls="main-menu"
        aria-label={counts.due > 0 ? `Menu, ${counts.due} approval requests` : 'Menu'}
        onClick={() => setOpen(!isOpen)}
      >
        <Due due={counts.due} />
      </Button>
    </header>
  );
}
