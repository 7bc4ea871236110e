export { normalizeCapability } from './capability-name.ts';
export {
  type CapabilityCatalog,
  type CapabilityInfo,
  type CapabilityProblem,
  createCapabilityCatalog,
  RISK_TIERS,
  type RiskTier,
  readCapabilities,
} from './catalog.ts';
export { type Ceiling, type CeilingVerifier, createCeilingVerifier } from './ceiling.ts';
export type { Explanation } from './chain-rights.ts';
export { describeNeed, formatPermission, permissionFor } from './denial.ts';
export {
  type Grant,
  grantAllows,
  grantName,
  grantProblem,
  isSystemGrant,
  type Need,
  type Scope,
} from './grant.ts';
export { type CategoryFilter, filterAllows, type ItemFilters } from './item-filter.ts';
export {
  generateKeyPair,
  importKeyPair,
  type KeyPair,
  keyIdOf,
  type PublicKeyRecord,
} from './key.ts';
export { createKeyFolder, type KeyFile, type KeyFolder } from './key-folder.ts';
export {
  type GrantedRights,
  grantsFromPermissions,
  type PermissionProblem,
  type Permissions,
} from './permission.ts';
export type { Permission } from './permission-map.ts';
export { missingAtStart, type StartCheck } from './start-check.ts';
export { type ItemStatement, signStatement, verifyStatement } from './statement.ts';
export {
  attenuateToken,
  type BlockContent,
  type CapabilityToken,
  decodeToken,
  encodeToken,
  type MintOptions,
  mintToken,
  sealToken,
} from './token.ts';
export type { ApprovedGrant, TokenBlock, TokenBudget } from './token-block.ts';
export {
  createTokenVerifier,
  type TokenVerifier,
  type TokenVerifierPorts,
} from './token-verifier.ts';
export { type ApprovedRight, widenToken } from './token-widen.ts';
export { createTrustStore, type TrustedKey, type TrustStore } from './trust-store.ts';
export type { VerifiedToken } from './verified-token.ts';
