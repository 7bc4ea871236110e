export { type BundleDigests, readBundleDigests } from './bundle-digests.ts';
export type { CatalogData } from './capability-data.ts';
export type { CatalogItem } from './catalog-index.ts';
export { CATALOG_TYPES, type CatalogEntry, type CatalogType } from './catalog-settings.ts';
export {
  type CatalogLevel,
  type CatalogOptions,
  type Catalogs,
  createCatalogs,
  type ListedCatalog,
} from './catalogs.ts';
export { type Chain, unalias } from './chain.ts';
export { checkFile, checkItemText, checkPath, itemKindOf, projectOf } from './check-file.ts';
export { contentCategory } from './content-category.ts';
export type { DataFile, DataLayer } from './data-files.ts';
export { DATA_NAMES, type DataName } from './data-shapes.ts';
export { checkDirective, type DirectiveWorld } from './directive-check.ts';
export { HOOK_CONTEXT } from './directive-context.ts';
export { resolveExtends } from './directive-extend.ts';
export { formatDirective } from './directive-format.ts';
export { parseDirective } from './directive-parse.ts';
export { childShape, DIRECTIVE, type Shape } from './directive-shape.ts';
export { canSpawn } from './directive-spawn.ts';
export { fillDirectiveText } from './directive-text.ts';
export type {
  Directive,
  DirectiveInput,
  DirectiveLimits,
  DirectiveOutput,
  Hook,
  ParsedDirective,
  Step,
} from './directive-value.ts';
export { installedBundles, itemRoots } from './installed-bundles.ts';
export type {
  DirectiveItem,
  Item,
  ItemBase,
  ItemOf,
  KnowledgeItem,
  SignatureState,
  ToolItem,
} from './item.ts';
export { copyItem } from './item-copy.ts';
export {
  type Effect,
  type ItemKind,
  KINDS,
  type Risk,
  type Role,
  type Sandbox,
  SOURCES,
  type Source,
} from './item-kinds.ts';
export { createLibrary, type Library, type LibraryOptions } from './library.ts';
export type { CheckOptions, ConfigCheck } from './library-check.ts';
export type { SearchHit, SearchPage, SearchQuery } from './library-search.ts';
export type { WriteMode, Written } from './library-write.ts';
export type { Root } from './root-files.ts';
export { examinePolicy, placeOfFile, type SignedFile, signItem, verifyItem } from './sign.ts';
export type { TrustPort } from './signature.ts';
export type { Retry, Tool, ToolAction, ToolParameter } from './tool.ts';
export { type ParsedTool, parseTool } from './tool-parse.ts';
