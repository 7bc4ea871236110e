// Reads the catalog of capabilities from the data files. An invalid declaration of a project is reported
// and left out. It never affects the declarations of the bundle.
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
    const created = createCapabilityCatalog(infosOf(ground), infosOf(added));
    if (created.ok) return { catalog: created.output, diagnostics };
    const before = added.size + ground.size;
    for (const problem of created.error.detail.problems as unknown as CapabilityProblem[]) {
      const from = added.get(problem.name) ?? ground.get(problem.name);
      diagnostics.push(diagnostic(from?.layer.file ?? '', problem));
      if (!added.delete(problem.name)) ground.delete(problem.name);
    }
    // If removing declarations does not help, the catalog is empty rather than too large.
    if (added.size + ground.size === before) {
      added.clear();
      ground.clear();
    }
  }
}

/** Returns a reader that caches the catalog until a file changes, because every call reads it. */
export function createCatalogReader(): (data: DataFile) => CatalogData {
  let cached: { layers: DataFile['layers']; made: CatalogData } | undefined;
  return (data) => {
    const isSame =
      cached?.layers.length === data.layers.length &&
      data.layers.every((layer, at) => layer.value === cached?.layers[at]?.value);
    if (!cached || !isSame) cached = { layers: data.layers, made: readCatalog(data) };
    return cached.made;
  };
}
