// The catalogue of capabilities out of the data files. What a project declares wrongly is reported
// and left out; the bundle's part is never touched by it.
import type { Diagnostic } from '../../base/index.ts';
import {
  type CapabilityCatalog,
  type CapabilityInfo,
  type CapabilityProblem,
  createCapabilityCatalog,
  readCapabilities,
} from '../../trust/index.ts';
import { aboutFile } from '../files/item-file.ts';
import type { DataFile, DataLayer } from './data-files.ts';

export interface CatalogData {
  catalog: CapabilityCatalog;
  diagnostics: Diagnostic[];
}

function diagnostic(file: string, { name, message }: CapabilityProblem): Diagnostic {
  const text = name === '' ? message : `capability \`${name}\` ${message}`;
  return aboutFile(file, 'capability_invalid', text);
}

function readLayers(layers: readonly DataLayer[], diagnostics: Diagnostic[]) {
  const infos = new Map<string, { info: CapabilityInfo; layer: DataLayer }>();
  for (const layer of layers) {
    const read = readCapabilities(layer.value);
    for (const problem of read.problems) diagnostics.push(diagnostic(layer.file, problem));
    for (const info of read.infos) infos.set(info.name, { info, layer });
  }
  return infos;
}

function readCatalog(data: DataFile): CatalogData {
  const diagnostics: Diagnostic[] = [];
  const own = (source: string) => data.layers.filter((layer) => layer.source === source);
  const ground = readLayers(own('bundle'), diagnostics);
  const added = readLayers([...own('user'), ...own('project')], diagnostics);
  for (const [name, { layer }] of added) {
    if (layer.isNameList && ground.has(name)) added.delete(name);
  }
  const infosOf = (map: typeof ground) => [...map.values()].map(({ info }) => info);
  for (;;) {
    const made = createCapabilityCatalog(infosOf(ground), infosOf(added));
    if (made.ok) return { catalog: made.output, diagnostics };
    const before = added.size + ground.size;
    for (const problem of made.error.detail.problems as unknown as CapabilityProblem[]) {
      const from = added.get(problem.name) ?? ground.get(problem.name);
      diagnostics.push(diagnostic(from?.layer.file ?? '', problem));
      if (!added.delete(problem.name)) ground.delete(problem.name);
    }
    // Nothing left to take out, and still no catalogue: hold nothing rather than too much.
    if (added.size + ground.size === before) {
      added.clear();
      ground.clear();
    }
  }
}

/** The same files give the same catalogue: it is asked for at every call. */
export function createCatalogReader(): (data: DataFile) => CatalogData {
  let known: { layers: DataFile['layers']; made: CatalogData } | undefined;
  return (data) => {
    const isSame =
      known?.layers.length === data.layers.length &&
      data.layers.every((layer, at) => layer.value === known?.layers[at]?.value);
    if (!known || !isSame) known = { layers: data.layers, made: readCatalog(data) };
    return known.made;
  };
}
