// Implements the language server. It handles one message after the other, and sends diagnostics when no
// message is waiting. It answers every request. Only `exit` and the end of its input stop it.
import { pathToFileURL } from 'node:url';
import { isObject, type Json, type JsonObject, messageOf, parseJson } from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { type Completion, completeAt, KINDS } from './completion.ts';
import { definitionAt } from './definition.ts';
import { findingsOf } from './diagnostics.ts';
import { createDocument, type Document } from './document.ts';
import { createOpenDocuments, fileOf, type Notify, type OpenDocuments } from './documents.ts';
import { hoverAt } from './hover.ts';
import { createModules, type Modules } from './modules.ts';
import { ERROR, placeField, Refusal, textField } from './protocol.ts';
import { symbolsOf } from './symbols.ts';
import type { View } from './view.ts';

/** Handlers of requests, by method. The result is null if there is nothing to return or the document was dropped. */
function createRequests(
  documents: OpenDocuments,
  modules: Modules,
): Readonly<Record<string, (params: JsonObject) => Json>> {
  const about =
    <Found>(
      find: (view: View, offset: number, modules: Modules) => Found | undefined,
      answer: (found: Found, document: Document, offset: number) => Json,
    ) =>
    (params: JsonObject): Json => {
      const document = documents.get(textField(params['textDocument'], 'uri'));
      const place = placeField(params['position']);
      if (!document) return null;
      const offset = document.offsetAt(place);
      const found = find(documents.view(document), offset, modules);
      return found ? answer(found, document, offset) : null;
    };
  return {
    'textDocument/hover': about(hoverAt, ({ text, at, end }, document) => ({
      contents: { kind: 'markdown', value: text },
      range: document.spanOf(at, end),
    })),
    'textDocument/definition': about(definitionAt, ({ file, text, at, end }, document) => {
      const uri = file === fileOf(document.uri) ? document.uri : pathToFileURL(file).href;
      return { uri, range: createDocument(uri, text, 0).spanOf(at, end) };
    }),
    'textDocument/completion': about(completeAt, completionList),
    'textDocument/documentSymbol'({ textDocument }) {
      const document = documents.get(textField(textDocument, 'uri'));
      if (!document) return null;
      return symbolsOf(documents.view(document)).map(({ name, kind, at, end }) => {
        const range = document.spanOf(at, end);
        return { name, kind, range, selectionRange: range };
      });
    },
  };
}

function completionList({ items, at }: Completion, document: Document, offset: number): Json {
  const range = document.spanOf(at, offset);
  const documented = (detail: string | undefined) =>
    detail === undefined ? {} : { documentation: { kind: 'markdown', value: detail } };
  const list = items.map(({ label, kind, detail }) => {
    const textEdit = { range, newText: label };
    return { label, kind: KINDS[kind], ...documented(detail), textEdit };
  });
  return { isIncomplete: false, items: list };
}

export interface ServerPorts {
  readonly version: string;
  readonly home: string;
  send(message: JsonObject): void;
  /** Returns the items of the project of a file; `undefined` if there is none. */
  library(file: string): Promise<Library | undefined>;
}

const CAPABILITIES: JsonObject = {
  textDocumentSync: { openClose: true, change: 2, save: { includeText: false } },
  hoverProvider: true,
  definitionProvider: true,
  documentSymbolProvider: true,
  completionProvider: { triggerCharacters: ['@', '.', '/', '<', ':', '{'] },
};

function failure(id: Json, error: unknown): JsonObject {
  const code = error instanceof Refusal ? error.code : ERROR.internal;
  return { jsonrpc: '2.0', id, error: { code, message: messageOf(error) } };
}

export function createServer(ports: ServerPorts) {
  const notify: Notify = (method, params) => ports.send({ jsonrpc: '2.0', method, params });
  const documents = createOpenDocuments(notify);
  const modules = createModules(ports.home, (file) => documents.textOf(file));
  const requests = createRequests(documents, modules);
  let state: 'new' | 'ready' | 'closed' = 'new';

  function answer(method: string, params: JsonObject): Json {
    if (state === 'closed') throw new Refusal(ERROR.request, 'the server was shut down');
    if (method === 'initialize') {
      if (state !== 'new') throw new Refusal(ERROR.request, 'the server is already initialized');
      state = 'ready';
      const serverInfo = { name: 'kernmantle', version: ports.version };
      return { capabilities: CAPABILITIES, serverInfo };
    }
    if (state === 'new') throw new Refusal(ERROR.early, 'the server is not initialized');
    if (method === 'shutdown') {
      state = 'closed';
      return null;
    }
    const work = Object.hasOwn(requests, method) ? requests[method] : undefined;
    if (!work) throw new Refusal(ERROR.method, `unknown method \`${method}\``);
    return work(params);
  }

  function request(id: Json, method: string, params: JsonObject): void {
    try {
      ports.send({ jsonrpc: '2.0', id, result: answer(method, params) });
    } catch (error) {
      ports.send(failure(id, error));
    }
  }

  function handleNotification(method: string, params: JsonObject): void {
    const { notifications } = documents;
    const work = Object.hasOwn(notifications, method) ? notifications[method] : undefined;
    if (!work || state !== 'ready') return;
    try {
      work(params);
    } catch (error) {
      notify('window/logMessage', { type: 1, message: `${method}: ${messageOf(error)}` });
    }
  }

  async function diagnose(document: Document): Promise<void> {
    const { uri, version } = document;
    const view = documents.view(document);
    const isItem = view.kind === 'directive' || view.kind === 'item';
    // A script beside tools may be the module of a tool.
    const isModule = view.kind === 'script' && /[\\/]\.ai[\\/]/.test(view.file);
    const library = isItem || isModule ? await ports.library(view.file) : undefined;
    const diagnostics = findingsOf(view, document, modules, library);
    notify('textDocument/publishDiagnostics', { uri, version, diagnostics });
  }

  return {
    /** Handles one message. Returns the exit code after the last message; otherwise `undefined`. */
    handle(text: string): number | undefined {
      const parsed = parseJson(text);
      if (!parsed.ok || !isObject(parsed.output)) {
        ports.send(failure(null, new Refusal(ERROR.parse, 'the message is not a JSON object')));
        return undefined;
      }
      const { id, method, params } = parsed.output;
      if (method === 'exit') return state === 'closed' ? 0 : 1;
      const object = isObject(params) ? params : {};
      // A message without a method is an answer. The server sends no requests, so it is ignored.
      if (typeof method !== 'string') return undefined;
      if (id === undefined) handleNotification(method, object);
      else request(id, method, object);
      return undefined;
    },
    /** Sends the diagnostics of changed documents. It is called when no message is waiting. */
    async settle(): Promise<void> {
      for (const document of documents.takeChanged()) {
        try {
          await diagnose(document);
        } catch (error) {
          const message = `${document.uri}: ${messageOf(error)}`;
          notify('window/logMessage', { type: 1, message });
        }
      }
    },
  };
}
