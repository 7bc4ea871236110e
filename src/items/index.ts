export {
  type CatalogLevel,
  type CatalogOptions,
  type Catalogs,
  copyItem,
  createCatalogs,
  type ListedCatalog,
} from './catalogs/catalogs.ts';
export type { CatalogItem } from './catalogs/index-cache.ts';
export { createItemRoots } from './catalogs/installed-bundles.ts';
export type { CatalogData } from './data/capability-data.ts';
export { CATALOG_TYPES, type CatalogEntry, type CatalogType } from './data/catalog-settings.ts';
export type { DataFile, DataLayer } from './data/data-files.ts';
export { DATA_NAMES, type DataName } from './data/data-shapes.ts';
export { checkDirective, type DirectiveWorld } from './directive/check.ts';
export type {
  Directive,
  DirectiveInput,
  DirectiveLimits,
  DirectiveOutput,
  Hook,
  ParsedDirective,
  Step,
} from './directive/directive.ts';
export { canSpawn, fillDirectiveText } from './directive/directive.ts';
export { resolveExtends } from './directive/extends.ts';
export { HOOK_CONTEXT } from './directive/hooks.ts';
export { parseDirective } from './directive/parse.ts';
export { childShape, DIRECTIVE, type Shape } from './directive/shape.ts';
export type { Root } from './files/root.ts';
export type {
  DirectiveItem,
  Item,
  ItemBase,
  ItemOf,
  KnowledgeItem,
  SignatureState,
  ToolItem,
} from './item.ts';
export {
  type ItemKind,
  KINDS,
  type Risk,
  type Role,
  type Sandbox,
  SOURCES,
  type Source,
  type ToolEffect,
} from './item-kinds.ts';
export type { CheckOptions, ConfigCheck } from './library/check.ts';
export {
  checkFile,
  checkItemText,
  checkPath,
  itemKindOf,
  projectOf,
} from './library/check-file.ts';
export { createLibrary, type Library, type LibraryOptions } from './library/library.ts';
export type { SearchHit, SearchPage, SearchQuery } from './library/search.ts';
export {
  examinePolicy,
  placeOfFile,
  type SignedFile,
  signItem,
  verifyItem,
} from './library/sign.ts';
export { type Chain, unalias } from './library/tool-chain.ts';
export type { WriteMode, Written } from './library/write.ts';
export { contentCategory } from './library/write.ts';
export type { TrustPort } from './signature.ts';
export { type BundleDigests, readBundleDigests } from './signature.ts';
export { type ParsedTool, parseTool } from './tool/parse.ts';
export type { Retry, Tool, ToolAction, ToolParameter } from './tool/tool.ts';
