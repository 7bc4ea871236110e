// Shared parts of drawings: the width of the container, so that text keeps its size, and the same
// content as text, for screen readers and for copying.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** A narrower container scrolls the drawing. */
const LEAST_WIDTH = 240;

/** Returns a ref and the current width of its element. The width is `first` until it is measured. */
export function usePlaceWidth(first: number): [{ current: HTMLDivElement | null }, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) setWidth(Math.max(LEAST_WIDTH, element.clientWidth));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [place, width];
}

/**
 * A fold. Its content is created when a user opens it, so a long list costs nothing before. `class`
 * sets its style.
 */
export function BehindDrawing(props: {
  title: string;
  class: string;
  children: () => ComponentChildren;
}) {
  const { title, children } = props;
  const [isOpen, setOpen] = useState(false);
  return (
    <details class={props.class} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isOpen ? children() : null}
    </details>
  );
}
