// The documents an editor has open, with what is known about each. Bounded: what is too long, or one
// too many, is not kept, and said so.
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '@kernmantle/core/base';
import { changeDocument, createDocument, type Document } from './document.ts';
import { changeOf, textField, versionOf } from './protocol.ts';
import { type View, viewOf } from './view.ts';

const MAX_DOCUMENTS = 500;
const MAX_LENGTH = 1024 * 1024;

export type Notify = (method: string, params: Json) => void;

export type OpenDocuments = ReturnType<typeof createOpenDocuments>;

/** Only files have a place among others; a text without one is treated as if it lay at the root. */
export function fileOf(uri: string): string {
  try {
    if (uri.startsWith('file:')) return fileURLToPath(uri);
    return `/${decodeURIComponent(new URL(uri).pathname).replace(/^\/+/, '')}`;
  } catch {
    return '/untitled';
  }
}

export function createOpenDocuments(notify: Notify) {
  const documents = new Map<string, Document>();
  const views = new WeakMap<Document, View>();
  const changed = new Set<string>();

  function drop(uri: string): void {
    documents.delete(uri);
    changed.delete(uri);
    notify('textDocument/publishDiagnostics', { uri, diagnostics: [] });
  }

  function keep(document: Document): void {
    const { uri, text } = document;
    const hasRoom = documents.has(uri) || documents.size < MAX_DOCUMENTS;
    if (hasRoom && text.length <= MAX_LENGTH) {
      documents.set(uri, document);
      changed.add(uri);
      return;
    }
    drop(uri);
    const message = `${uri} is not looked at: ${hasRoom ? 'it is too long' : 'too many are open'}`;
    notify('window/logMessage', { type: 2, message });
  }

  /** By method, what a client tells about documents. */
  const notifications: Readonly<Record<string, (params: JsonObject) => void>> = {
    'textDocument/didOpen'({ textDocument }) {
      const uri = textField(textDocument, 'uri');
      keep(createDocument(uri, textField(textDocument, 'text'), versionOf(textDocument)));
    },
    'textDocument/didChange'({ textDocument, contentChanges }) {
      const document = documents.get(textField(textDocument, 'uri'));
      if (!document || !Array.isArray(contentChanges)) return;
      keep(changeDocument(document, contentChanges.map(changeOf), versionOf(textDocument)));
    },
    'textDocument/didSave'() {
      // What one file holds may change what is wrong with the others.
      for (const uri of documents.keys()) changed.add(uri);
    },
    'textDocument/didClose'({ textDocument }) {
      drop(textField(textDocument, 'uri'));
    },
  };

  return {
    notifications,
    get: (uri: string): Document | undefined => documents.get(uri),
    /** The text of a file that is open. */
    textOf: (file: string): string | undefined => documents.get(pathToFileURL(file).href)?.text,
    view(document: Document): View {
      const known = views.get(document);
      if (known) return known;
      const made = viewOf(document.text, fileOf(document.uri));
      views.set(document, made);
      return made;
    },
    /** Those whose findings have to be told again; asking empties the list. */
    takeChanged(): Document[] {
      const list = [...changed].flatMap((uri) => documents.get(uri) ?? []);
      changed.clear();
      return list;
    },
  };
}
