// Stores the documents that an editor has open, with their views. Their number and length are limited. A
// document beyond the limits is dropped with a message.
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Json, JsonObject } from '@kernmantle/core/base';
import { changeDocument, createDocument, type Document } from './document.ts';
import { changeOf, textField, versionOf } from './protocol.ts';
import { type View, viewOf } from './view.ts';

const MAX_DOCUMENTS = 500;
const MAX_LENGTH = 1024 * 1024;

export type Notify = (method: string, params: Json) => void;

export type OpenDocuments = ReturnType<typeof createOpenDocuments>;

/** Returns the file of a URI. A document that is not a file gets a path at the root. */
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
    const message = `${uri} has no diagnostics: ${hasRoom ? 'it is too long' : 'too many are open'}`;
    notify('window/logMessage', { type: 2, message });
  }

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
      // The text of one file can change the findings of others.
      for (const uri of documents.keys()) changed.add(uri);
    },
    'textDocument/didClose'({ textDocument }) {
      drop(textField(textDocument, 'uri'));
    },
  };

  return {
    notifications,
    get: (uri: string): Document | undefined => documents.get(uri),
    /** Returns the text of an open file; `undefined` if it is not open. */
    textOf: (file: string): string | undefined => documents.get(pathToFileURL(file).href)?.text,
    view(document: Document): View {
      const cached = views.get(document);
      if (cached) return cached;
      const fresh = viewOf(document.text, fileOf(document.uri));
      views.set(document, fresh);
      return fresh;
    },
    /** Returns the documents that need new findings, and empties that list. */
    takeChanged(): Document[] {
      const list = [...changed].flatMap((uri) => documents.get(uri) ?? []);
      changed.clear();
      return list;
    },
  };
}
