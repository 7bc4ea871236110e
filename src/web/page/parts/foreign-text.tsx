// The only way in which text of models, tools and files gets onto the page: as text nodes, with
// everything shown that could hide or turn something.
export function ForeignText(props: { text: string; label?: string; class?: string }) {
  return <span class={`foreign ${props.class ?? ''}`}>{props.text}</span>;
}
