// The language server: one message after the other, diagnostics when nothing else is waiting. It
// answers whatever it is sent; only `exit` and the end of its input end it.
import { isObject, type Json, type JsonObject, parseJson } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import { findingsOf } from './diagnostics.ts';
import type { Document } from './document.ts';
import { createModules } from './modules.ts';
import { createOpenDocuments, type Notify } from './open-documents.ts';
import { ERROR, Refusal } from './params.ts';
import { createRequests } from './requests.ts';

export interface ServerPorts {
  readonly version: string;
  /** The user's folder. */
  readonly home: string;
  send(message: JsonObject): void;
  /** The items that a file lies among; undefined when there are none. */
  library(file: string): Promise<Library | undefined>;
}

export interface Server {
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
