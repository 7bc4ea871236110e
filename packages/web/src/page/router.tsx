// Router of the page. The address has the view, its filters and its selection, so that back, reload
// and a copied address restore the same view.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

interface Route {
  readonly path: string;
  /** Decoded parts of the path, without empty ones: `/t/ID` is `['t', 'ID']`. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function here(): Route {
  const { pathname, search } = location;
  const parts = pathname.split('/').filter(Boolean).map(decoded);
  return { path: pathname, parts, query: new URLSearchParams(search) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(here());
addEventListener('popstate', () => {
  route.value = here();
});

/** Opens a path of this page. The caller encodes ids with `pathOf`. */
export function go(path: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, '', path);
  else history.pushState(null, '', path);
  route.value = here();
}

export const pathOf = (...parts: readonly string[]): string =>
  `/${parts.map((part) => encodeURIComponent(part)).join('/')}`;

/** Changes some fields of the query; `undefined` removes a field. */
export function setQuery(
  changes: Readonly<Record<string, string | undefined>>,
  replace = true,
): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(`${location.pathname}${text === '' ? '' : `?${text}`}`, { replace });
}

/** A link inside the page. It accepts only paths of this page, never an address from data. */
export function Link(props: {
  to: string;
  children: ComponentChildren;
  class?: string;
  label?: string;
  current?: boolean;
}) {
  const { to, children, label, current = false } = props;
  const own = to.startsWith('/') && !to.startsWith('//') ? to : '/';
  return (
    <a
      href={own}
      class={props.class ?? ''}
      {...(label === undefined ? {} : { 'aria-label': label })}
      {...(current ? { 'aria-current': 'page' as const } : {})}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        go(own);
      }}
    >
      {children}
    </a>
  );
}
