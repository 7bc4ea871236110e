export {
  type CapabilityCatalog,
  type CapabilityInfo,
  type CapabilityProblem,
  createCapabilityCatalog,
  isNamePattern,
  normalizeCapability,
  RISK_TIERS,
  type RiskTier,
  readCapabilities,
} from './grants/capability-catalog.ts';
export { type Ceiling, capsOn, createCeilingVerifier } from './grants/ceiling.ts';
export { describeNeed, formatPermission, permissionFor } from './grants/denial.ts';
export {
  ceilingProblem,
  type Grant,
  grantName,
  grantProblem,
  grantsAllow,
  isSystemGrant,
  type Need,
  type Scope,
} from './grants/grant.ts';
export {
  type CategoryFilter,
  FILTER_LISTS,
  listRefusal,
  missingInList,
} from './grants/item-filter.ts';
export {
  type GrantedRights,
  grantsFromPermissions,
  type Permissions,
} from './grants/permission.ts';
export { PERMISSION_FIELDS, type Permission } from './grants/permission-map.ts';
export { HTTP_METHODS } from './grants/scope-match.ts';
export { scopeProblem, valueInScope } from './grants/value-scope.ts';
export { openDecisions } from './keys/decision-file.ts';
export { type ItemStatement, signStatement, verifyStatement } from './keys/item-statement.ts';
export { type KeyPair, keyIdOf } from './keys/key.ts';
export { createKeyFolder, deriveVaultKey, type KeyFolder } from './keys/key-folder.ts';
export { openKeys, sealKeys } from './keys/key-parcel.ts';
export { createTrustStore, type TrustStore } from './keys/trust-store.ts';
export { missingAtStart } from './tokens/chain-rights.ts';
export { attenuateToken, type CapabilityToken, encodeToken, mintToken } from './tokens/token.ts';
export {
  createTokenVerifier,
  type TokenVerifier,
  type TokenVerifierPorts,
} from './tokens/token-verifier.ts';
export { type ApprovedRight, VerifiedToken, widenToken } from './tokens/verified-token.ts';
