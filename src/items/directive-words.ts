// How messages name things in the two forms: `<limits>` is a tag, `limits:` a key.

export type Form = 'xml' | 'yaml';

export interface Words {
  readonly form: Form;
  /** "tag" or "key". */
  readonly tagKind: string;
  readonly attributeKind: string;
  /** A tag by its name, quoted. */
  tag(name: string): string;
  /** An attribute with a value, as it is written. */
  attribute(name: string, value: string): string;
}

const clip = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

export const WORDS: Readonly<Record<Form, Words>> = {
  xml: {
    form: 'xml',
    tagKind: 'tag',
    attributeKind: 'attribute',
    tag: (name) => `\`<${clip(name)}>\``,
    attribute: (name, value) => `\`${name}="${clip(value)}"\``,
  },
  yaml: {
    form: 'yaml',
    tagKind: 'key',
    attributeKind: 'key',
    tag: (name) => `\`${clip(name)}\``,
    attribute: (name, value) => `\`${name}: ${clip(value)}\``,
  },
};
