// What a client asks about a place of a document.
import { pathToFileURL } from 'node:url';
import { isObject, type Json, type JsonObject, parseJson } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import { type Completion, type CompletionKind, completeAt } from './completion.ts';
import { definitionAt } from './definition.ts';
import { findingsOf } from './diagnostics.ts';
import { createDocument, type Document, type Span } from './document.ts';
import { createOpenDocuments, fileOf, type Notify, type OpenDocuments } from './documents.ts';
import { hoverAt } from './hover.ts';
import { createModules, type Modules } from './modules.ts';
import { ERROR, placeField, Refusal, textField } from './protocol.ts';

/** As the protocol numbers them. */
const KINDS: Readonly<Record<CompletionKind, number>> = {
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
function createRequests(
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

// The language server: one message after the other, diagnostics when nothing else is waiting. It
// answers whatever it is sent; only `exit` and the end of its input end it.

export interface ServerPorts {
  readonly version: string;
  /** The user's folder. */
  readonly home: string;
  send(message: JsonObject): void;
  /** The items that a file lies among; undefined when there are none. */
  library(file: string): Promise<Library | undefined>;
}

interface Server {
  /** One message as it came. An exit code when it was the last. */
  handle(text: string): number | undefined;
  /** Tells what is wrong with the documents that changed; called when nothing else waits. */
  settle(): Promise<void>;
}

const CAPABILITIES: JsonObject = {
  textDocumentSync: { openClose: true, change: 2, save: { includeText: false } },
  hoverProvider: true,
  definitionProvider: true,
  completionProvider: { triggerCharacters: ['@', '.', '/', '<', ':', '{'] },
};

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

function failure(id: Json, error: unknown): JsonObject {
  const code = error instanceof Refusal ? error.code : ERROR.internal;
  return { jsonrpc: '2.0', id, error: { code, message: messageOf(error) } };
}

export function createServer(ports: ServerPorts): Server {
  const notify: Notify = (method, params) => ports.send({ jsonrpc: '2.0', method, params });
  const documents = createOpenDocuments(notify);
  const requests = createRequests(
    documents,
    createModules({ home: ports.home, opened: (file) => documents.textOf(file) }),
  );
  let state: 'new' | 'ready' | 'closed' = 'new';

  function answer(method: string, params: JsonObject): Json {
    if (state === 'closed') throw new Refusal(ERROR.request, 'it was shut down');
    if (method === 'initialize') {
      if (state !== 'new') throw new Refusal(ERROR.request, 'it is initialized already');
      state = 'ready';
      const serverInfo = { name: 'kernmantle', version: ports.version };
      return { capabilities: CAPABILITIES, serverInfo };
    }
    if (state === 'new') throw new Refusal(ERROR.early, 'it is not initialized yet');
    if (method === 'shutdown') {
      state = 'closed';
      return null;
    }
    const work = Object.hasOwn(requests, method) ? requests[method] : undefined;
    if (!work) throw new Refusal(ERROR.method, `\`${method}\` is not known`);
    return work(params);
  }

  function request(id: Json, method: string, params: JsonObject): void {
    try {
      ports.send({ jsonrpc: '2.0', id, result: answer(method, params) });
    } catch (error) {
      ports.send(failure(id, error));
    }
  }

  function note(method: string, params: JsonObject): void {
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
    const library = isItem ? await ports.library(view.file) : undefined;
    const found = findingsOf(view, document, library);
    const diagnostics = found as unknown as Json;
    notify('textDocument/publishDiagnostics', { uri, version, diagnostics });
  }

  return {
    handle(text) {
      const parsed = parseJson(text);
      if (!parsed.ok || !isObject(parsed.output)) {
        ports.send(failure(null, new Refusal(ERROR.parse, 'this is no JSON object')));
        return undefined;
      }
      const { id, method, params } = parsed.output;
      if (method === 'exit') return state === 'closed' ? 0 : 1;
      const given = isObject(params) ? params : {};
      // Without a method it is an answer; nothing was asked.
      if (typeof method !== 'string') return undefined;
      if (id === undefined) note(method, given);
      else request(id, method, given);
      return undefined;
    },
    async settle() {
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
