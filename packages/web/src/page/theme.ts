// Theme of the page: light, dark or system. The browser stores the choice. The colours are in tokens.css.
import { signal } from '@preact/signals';

const KEPT = 'kernmantle-theme';
const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

const read = (): Theme => THEMES.find((name) => name === localStorage.getItem(KEPT)) ?? 'system';

const theme = signal<Theme>(read());

function show(): void {
  document.documentElement.dataset['theme'] = theme.value;
}

/** Sets the theme before the first render, which avoids a flash. */
export function startTheme(): void {
  show();
  addEventListener('storage', ({ key }) => {
    if (key !== KEPT) return;
    theme.value = read();
    show();
  });
}

/** Switches from `system` to the opposite theme, then to the theme of the system, then back to `system`. */
export function nextTheme(): void {
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const order: Theme[] = isDark ? ['system', 'light', 'dark'] : ['system', 'dark', 'light'];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? 'system';
  if (theme.value === 'system') localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, theme.value);
  show();
}

const narrow = matchMedia('(max-width: 760px)');

/** True on a narrow or zoomed screen. Rows then have two lines. */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener('change', ({ matches }) => {
  isNarrow.value = matches;
});
