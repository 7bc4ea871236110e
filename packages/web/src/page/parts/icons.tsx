// Small drawings of 14 units in the colour of the text around them. A shape without a label is hidden
// from screen readers, because the word beside it has the same meaning.
const SHAPES = {
  tool: 'M2.5 4.5 5.5 7l-3 2.5M7.5 10h4',
  model: 'M2.5 3.500h9v6h-5l-2.500 2v-2h-1.500z',
  hook: 'M7 2.2 11.8 7 7 11.8 2.2 7z',
  child: 'M4 2.500v5.500a2 2 0 0 0 2 2h4.500M8.500 8l2 2-2 2M4 5h3',
  no: 'M2.200 7a4.800 4.800 0 1 0 9.600 0a4.800 4.800 0 1 0-9.600 0M3.700 10.300 10.300 3.700',
  run: 'M2.600 7a4.400 4.400 0 1 0 8.800 0a4.400 4.400 0 1 0-8.800 0M7 6.200a.8.8 0 1 0 .01 0z',
  ask: 'M7 1.800 12.200 7 7 12.200 1.800 7zM7 4.800v2.600M7 9.200v.1',
  ok: 'm3 7.400 2.600 2.600L11 4.400',
  x: 'm4 4 6 6M10 4l-6 6',
  dash: 'M4 7h6',
  pause: 'M5 3.500v7M9 3.500v7',
  play: 'M4.500 3l6 4-6 4z',
  say: 'M2.500 3h9v6.500h-5L4 11.800V9.500H2.500z',
  stop: 'M4.500 3.500h5a1 1 0 0 1 1 1v5a1 1 0 0 1-1 1h-5a1 1 0 0 1-1-1v-5a1 1 0 0 1 1-1z',
  more: 'M2.600 7h.8M6.600 7h.8M10.600 7h.8',
  find: 'M2.400 6a3.600 3.600 0 1 0 7.200 0a3.600 3.600 0 1 0-7.200 0m6.600 3 2.600 2.600',
  seal: 'M7 1.900l4.200 1.500v3.400c0 2.600-1.700 4.400-4.200 5.300-2.500-.9-4.200-2.700-4.200-5.300V3.400zM5 6.900l1.500 1.500L9.200 5.600',
  read: 'M3.500 2.200h4.700L10.500 4.500v7.300h-7zM8 2.300V5h2.500',
  write: 'm2.800 11.200.6-2.600 6-6 2 2-6 6z',
  net: 'M2.200 7a4.800 4.800 0 1 0 9.600 0a4.800 4.800 0 1 0-9.600 0M2.200 7h9.600M7 2.200c2.600 2.700 2.600 6.900 0 9.600-2.600-2.700-2.600-6.900 0-9.600z',
  way: 'M2.500 7h8M7.500 4l3 3-3 3',
  back: 'M11.500 7h-8M6.500 4l-3 3 3 3',
  chev: 'm4 5.500 3 3 3-3',
  right: 'm5.500 4 3 3-3 3',
  theme: 'M2.200 7a4.800 4.800 0 1 0 9.600 0a4.800 4.800 0 1 0-9.600 0M7 2.200v9.600M9 3v8M11 5v4',
  list: 'M2.500 4h9M2.500 7h9M2.500 10h9',
  copy: 'M5 5h6.500v6.500H5zM9 5V2.500H2.500V9H5',
  warn: 'M7 2.200 12.500 11.500h-11zM7 5.800v2.400M7 9.800v.1',
  clock: 'M2.200 7a4.800 4.800 0 1 0 9.600 0a4.800 4.800 0 1 0-9.600 0M7 4.200V7l2 1.400',
  item: 'M2.500 4.200 7 2l4.500 2.200v5.600L7 12 2.500 9.800zM2.500 4.200 7 6.500l4.500-2.300M7 6.500V12',
  coin: 'M2.200 7a4.800 4.800 0 1 0 9.600 0a4.800 4.800 0 1 0-9.600 0M8.800 5.300c-.9-1-3.400-.8-3.400.5 0 1.600 3.400.8 3.400 2.500 0 1.400-2.700 1.500-3.600.4M7 3.800v6.400',
} as const;

export type IconName = keyof typeof SHAPES;

/** Set `label` only if no word is beside the icon. */
export function Icon(props: { name: IconName; label?: string; class?: string }) {
  const { name, label } = props;
  const aria =
    label === undefined
      ? { 'aria-hidden': 'true' as const }
      : { role: 'img' as const, 'aria-label': label };
  return (
    <svg class={`i ${props.class ?? ''}`} viewBox="0 0 14 14" {...aria}>
      <path d={SHAPES[name]} />
    </svg>
  );
}
