// What a client asks about a place of a document.
import { pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '../../base/index.ts';
import { type Completion, completeAt, type ItemKind } from './completion.ts';
import { definitionAt } from './definition.ts';
import { createDocument, type Document, type Span } from './document.ts';
import { hoverAt } from './hover.ts';
import type { Modules } from './modules.ts';
import { fileOf, type OpenDocuments } from './open-documents.ts';
import { placeField, textField } from './params.ts';

/** As the protocol numbers them. */
const KINDS: Readonly<Record<ItemKind, number>> = {
  method: 2,
  function: 3,
  field: 5,
  variable: 6,
  module: 9,
  tag: 10,
  word: 14,
};

const spanJson = ({ start, end }: Span): Json => ({ start: { ...start }, end: { ...end } });

/** By method; null is the answer when there is nothing to say, or the document is not kept. */
export function createRequests(
  documents: OpenDocuments,
  modules: Modules,
): Readonly<Record<string, (params: JsonObject) => Json>> {
  function asked(params: JsonObject): { document: Document; offset: number } | undefined {
    const document = documents.get(textField(params['textDocument'], 'uri'));
    const place = placeField(params['position']);
    return document && { document, offset: document.offsetAt(place) };
  }
  return {
    'textDocument/hover'(params) {
      const about = asked(params);
      const found = about && hoverAt(documents.view(about.document), about.offset, modules);
      if (!found) return null;
      const range = spanJson(about.document.spanOf(found.at, found.end));
      return { contents: { kind: 'markdown', value: found.text }, range };
    },
    'textDocument/definition'(params) {
      const about = asked(params);
      const found = about && definitionAt(documents.view(about.document), about.offset, modules);
      if (!found) return null;
      const isHere = found.file === fileOf(about.document.uri);
      const uri = isHere ? about.document.uri : pathToFileURL(found.file).href;
      const target = createDocument(uri, found.text, 0);
      return { uri, range: spanJson(target.spanOf(found.at, found.end)) };
    },
    'textDocument/completion'(params) {
      const about = asked(params);
      const found = about && completeAt(documents.view(about.document), about.offset, modules);
      return found ? completionList(found, about.document, about.offset) : null;
    },
  };
}

function completionList({ items, at }: Completion, document: Document, offset: number): Json {
  const range = spanJson(document.spanOf(at, offset));
  const list = items.map(
    ({ label, kind, detail }): Json => ({
      label,
      kind: KINDS[kind],
      ...(detail === undefined ? {} : { documentation: { kind: 'markdown', value: detail } }),
      textEdit: { range, newText: label },
    }),
  );
  return { isIncomplete: false, items: list };
}
