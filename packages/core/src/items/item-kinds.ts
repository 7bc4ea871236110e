// Defines the words that all files about items share. The sets are closed, because many files handle each member.

export type ItemKind = 'directive' | 'tool' | 'knowledge';
export type Source = 'project' | 'user' | 'installed' | 'bundle';
export type Risk = 'exfil' | 'destructive' | 'privileged';
/** Role of a parameter in a call. Rules about trusted origins apply to all roles but `content`. */
export type Role = 'destination' | 'command' | 'path' | 'content';
export type Sandbox = 'strict' | 'workspace' | 'none';

export const KINDS: readonly ItemKind[] = ['directive', 'tool', 'knowledge'];
/** Levels in the order of look-up: an item shadows later ones with the same id. */
export const SOURCES: readonly Source[] = ['project', 'user', 'installed', 'bundle'];
export const RISKS: readonly Risk[] = ['exfil', 'destructive', 'privileged'];
export const ROLES: readonly Role[] = ['destination', 'command', 'path', 'content'];
export const SANDBOXES: readonly Sandbox[] = ['strict', 'workspace', 'none'];

/** The version of an item that declares none. */
export const NO_VERSION = '0.0.0';
export const VERSION = /^\d{1,9}\.\d{1,9}\.\d{1,9}$/;
export const versionOf = (text: string): string => (VERSION.test(text) ? text : NO_VERSION);

export interface ItemFacts {
  title: string;
  description: string;
  category: string;
  tags: readonly string[];
  version: string;
}

/** Folder under a root and file extensions of each kind. A new file gets the first extension. */
export const PLACES: Readonly<Record<ItemKind, { folder: string; extensions: readonly string[] }>> =
  {
    directive: { folder: 'directives', extensions: ['.md'] },
    tool: { folder: 'tools', extensions: ['.yaml', '.yml'] },
    knowledge: { folder: 'knowledge', extensions: ['.md'] },
  };
