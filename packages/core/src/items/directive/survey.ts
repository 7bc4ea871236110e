// Walks over the elements and reports tags and attributes that the table of shapes does not contain,
// misplaced text, and tags that are never closed.
import { didYouMean, nearest } from '../../base/index.ts';
import { type Element, elementsOf } from './element.ts';
import { offsetIn } from './entities.ts';
import { type Findings, quoted } from './findings.ts';
import { oldHookHint } from './limits.ts';
import { homeOf, type Shape, takesAttribute } from './shape.ts';

function attributeHint(name: string, shape: Shape): string | undefined {
  const near = didYouMean(name, shape.attributes);
  if (near !== undefined) return near;
  if (Object.hasOwn(shape.children, name)) return `write it as a tag: \`<${name}>…</${name}>\``;
  const validNames = shape.attributes.map((attribute) => `\`${attribute}\``).join(', ');
  return validNames === '' ? 'this tag has no attributes' : `use ${validNames}`;
}

function tagHint(element: Element, parent: Element, { words }: Findings): string {
  const old = oldHookHint(element, parent);
  if (old !== undefined) return old;
  const { attributes, children, text } = parent.shape as Shape;
  const names =
    words.form === 'yaml' ? [...attributes, ...Object.keys(children)] : Object.keys(children);
  const validNames = names.filter((name) => name !== 'cost');
  const near = nearest(element.name, validNames);
  if (near !== undefined) return `did you mean ${words.tag(near)}`;
  const home = homeOf(element.name);
  if (home !== undefined) return `${words.tag(element.name)} belongs inside ${words.tag(home)}`;
  if (attributes.includes(element.name)) {
    return `write it as an attribute: \`<${parent.name} ${element.name}="…">\``;
  }
  if (text && words.form === 'xml') return 'write `&lt;` if it is meant as text';
  return validNames.length === 0
    ? `${words.tag(parent.name)} cannot contain ${words.tagKind}s`
    : `use ${validNames.map((name) => `\`${name}\``).join(', ')}`;
}

export function survey(root: Element, findings: Findings): void {
  const { words } = findings;

  function unclosed({ name, at, shape }: Element): void {
    const isEmpty = shape && !shape.text && Object.keys(shape.children).length === 0;
    const hint = isEmpty ? `end it with \`/>\`: \`<${name} … />\`` : `add \`</${name}>\``;
    findings.error('tag_unclosed', at, `tag ${words.tag(name)} is never closed`, hint);
  }

  function attributes({ name, attributes: list, shape }: Element): void {
    if (!shape || shape.free || shape.gone) return;
    for (const attribute of list) {
      if (takesAttribute(shape, attribute.name)) continue;
      const message = `unknown attribute ${quoted(attribute.name)} on ${words.tag(name)}`;
      const hint = attributeHint(attribute.name, shape);
      findings.error('attribute_unknown', attribute.at, message, hint);
    }
  }

  function text({ name, children, shape, unclosed: isOpen }: Element): void {
    if (!shape || shape.text || shape.gone || isOpen) return;
    for (const child of children) {
      if (child.kind !== 'text' || child.text.trim() === '') continue;
      findings.error(
        'text_unexpected',
        offsetIn(child, child.text.length - child.text.trimStart().length),
        `text ${quoted(child.text.trim())} is directly inside ${words.tag(name)}, which may contain only tags`,
        name === 'process' ? 'put it into `<step name="…">…</step>`' : undefined,
      );
      return;
    }
  }

  function unknown(element: Element, parent: Element): void {
    const message = `unknown ${words.tagKind} ${words.tag(element.name)} inside ${words.tag(parent.name)}`;
    findings.error('tag_unknown', element.at, message, tagHint(element, parent, findings));
  }

  // Recursion is safe, because the reader bounds the depth of the tree.
  function visit(element: Element): void {
    if (element.unclosed) unclosed(element);
    attributes(element);
    text(element);
    const names = new Set<string>();
    for (const child of elementsOf(element)) {
      if (!child.shape) {
        unknown(child, element);
        continue;
      }
      if (names.has(child.name) && !child.shape.repeat) {
        const message = `${words.tag(child.name)} occurs more than once inside ${words.tag(element.name)}`;
        findings.error('tag_duplicate', child.at, message, 'keep one of them');
      }
      names.add(child.name);
      visit(child);
    }
  }
  visit(root);
}
