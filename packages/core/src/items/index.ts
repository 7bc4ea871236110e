export { type Catalogs, copyItem, createCatalogs, modelPackages } from './catalogs/catalogs.ts';
export { createItemRoots } from './catalogs/installed-bundles.ts';
export type { CatalogEntry } from './data/catalog-settings.ts';
export type { DataLayer } from './data/data-files.ts';
export { giveProjectId, readProjectFile } from './data/project-file.ts';
export {
  type AgentView,
  canSpawn,
  type Directive,
  type DirectiveInput,
  type DirectiveLimits,
  fillDirectiveText,
  type Hook,
} from './directive/directive.ts';
export { resolveExtends } from './directive/extends.ts';
export { EVENT_FIELDS, EVENT_NAMES } from './directive/hook-context.ts';
export { hookProblems, mayMatch } from './directive/hooks.ts';
export { parseDirective } from './directive/parse.ts';
export { childShape, DIRECTIVE, type Shape } from './directive/shape.ts';
export type { Exposed } from './expose.ts';
export { createItemsDigest, RECORD_NAMES } from './files/items-digest.ts';
export type { DirectiveItem, Item, SignatureState, ToolItem } from './item.ts';
export { type ItemKind, KINDS, type Risk, type Source } from './item-kinds.ts';
export {
  checkItemText,
  checkPath,
  filesBelow,
  itemKindOf,
  projectOf,
} from './library/check-file.ts';
export {
  type ConnectorTool,
  connectorTools,
  isGenerated,
  type KnownServer,
  knownServers,
  serverName,
} from './library/connectors.ts';
export {
  exposedName,
  exposedOf,
  exposedUri,
  groupExposed,
  INPUT_PARAMETERS,
  idInUri,
} from './library/exposed.ts';
export { createLibrary, type Library, SHIPPED } from './library/library.ts';
export { createSearchIndex, queryWords, readerOf } from './library/search-index.ts';
export { examinePolicy, putSigned, type SignedFile, signItem, verifyItem } from './library/sign.ts';
export {
  type Chain,
  type ConfigFault,
  mergedConfig,
  requiredBy,
  writerOf,
} from './library/tool-chain.ts';
export { contentCategory } from './library/write.ts';
export { kindName, parseTool, resultFields } from './tool/parse.ts';
export type { Retry, Tool, ToolParameter } from './tool/tool.ts';
