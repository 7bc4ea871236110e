import { useEffect, useRef, useState } from 'preact/hooks';

/** How wide the place of a drawing is, also after it changed: text in it stays at its true size. */
export function usePlaceWidth(first: number): [{ current: HTMLDivElement | null }, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) setWidth(Math.max(240, element.clientWidth));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [place, width];
}
