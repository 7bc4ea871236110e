// Opens model objects of the AI SDK: objects of the embedding program, and packages that the user installed. The
// package gets a `fetch` that reaches only the hosts of the user's file. This binds a package that uses it.
import { pathToFileURL } from 'node:url';
import { type Failure, fail, messageOf, type Outcome, ok } from '../base/index.ts';
import type { OpenSdkModel } from '../harness/index.ts';
import { modelPackages } from '../items/index.ts';
import { createKeepOut, openFetch, policyAuthority, verifierOf } from '../kernel/index.ts';
import { isSdkModel, propertyIn, type ResolvedModel, type SdkPackage } from '../llm/index.ts';
import { closedPlaces } from './open-kernel.ts';
import type { OpenProject, RuntimeContext } from './open-project.ts';

const MAX_BYTES = 16 * 1024 * 1024;

const unavailable = (message: string, reason: string): Failure =>
  fail('model_unavailable', message, { reason, transient: false });

/** Returns an object of the program. A process of another program has none. */
function programModel({ own }: OpenProject, name: string): ReturnType<OpenSdkModel> {
  const model = own.models && Object.hasOwn(own.models, name) ? own.models[name] : undefined;
  return Promise.resolve(
    isSdkModel(model)
      ? ok({ model })
      : unavailable(`the program has no model \`${name}\``, 'model_missing'),
  );
}

/** Opens `fetch` for these hosts. The last failure of its own is the reason of an error of the package. */
async function ownFetch({ open, library }: RuntimeContext, { hosts }: SdkPackage) {
  const { clock, policies } = open;
  const { catalog } = library.capabilities();
  const keepOut = createKeepOut(closedPlaces(open), clock);
  const client = await openFetch({
    clock,
    maxBytes: MAX_BYTES,
    verify: verifierOf(keepOut(policyAuthority(policies.current().policy, 'harness', catalog))),
    isHostAllowed: (host, _address, port) => hosts.includes(`${host}:${port}`),
  });
  let failure: Failure | undefined;
  return {
    close: () => client.close(),
    failureIn: () => failure,
    async fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
      const url = URL.parse(input instanceof Request ? input.url : String(input));
      failure = undefined;
      if (url === null || !hosts.includes(url.host)) {
        const host = url?.host ?? '';
        failure = fail(
          'permission_denied',
          `a model package must not reach \`${host}\`; its \`hosts\` do not list it`,
          { host, sent: false, charged: false },
        );
        throw new Error(failure.error.detail.message);
      }
      try {
        return await client.fetch(url, init);
      } catch (error) {
        failure = client.failureIn(error);
        throw error;
      }
    },
  };
}

/** Calls the factory of the package. Its result is checked, because the package decides what it returns. */
async function createModel(
  entry: string,
  { create, options }: SdkPackage,
  model: string,
  own: Readonly<Record<string, unknown>>,
): Promise<Outcome<unknown>> {
  try {
    const loaded: unknown = await import(pathToFileURL(entry).href);
    const factory = propertyIn(loaded, create);
    if (typeof factory !== 'function') {
      return fail('config_invalid', `the package exports no function \`${create}\``);
    }
    const provider: unknown = factory({ ...options, ...own });
    const languageModel = propertyIn(provider, 'languageModel');
    return ok(
      typeof languageModel === 'function' ? languageModel.call(provider, model) : undefined,
    );
  } catch (error) {
    return fail('config_invalid', `the package cannot create the model: ${messageOf(error)}`);
  }
}

async function packageModel(
  rooms: RuntimeContext,
  resolved: ResolvedModel,
  sdk: SdkPackage,
): ReturnType<OpenSdkModel> {
  const { open } = rooms;
  const { modelPackageEntry } = await modelPackages();
  const entry = modelPackageEntry(open.home, sdk.package);
  if (!entry.ok) return entry;
  const client = await ownFetch(rooms, sdk);
  const key = resolved.key_variable && open.env[resolved.key_variable];
  const own = { ...(key && { apiKey: key }), fetch: client.fetch };
  const model = await createModel(entry.output, sdk, resolved.model, own);
  if (model.ok && isSdkModel(model.output)) {
    return ok({ model: model.output, failureIn: client.failureIn, close: client.close });
  }
  client.close();
  if (!model.ok) return model;
  const message = `\`${sdk.create}\` of \`${sdk.package}\` returns no model with specification v3 or v4`;
  return fail('config_invalid', message);
}

export const openSdkModels =
  (rooms: RuntimeContext): OpenSdkModel =>
  (resolved) => {
    const { sdk } = resolved;
    if (!sdk) return Promise.resolve(unavailable('the model has no package', 'package_missing'));
    return 'program' in sdk
      ? programModel(rooms.open, sdk.program)
      : packageModel(rooms, resolved, sdk);
  };
