/** Is `path` this folder or below it? Both are absolute and have no `..` left in them. */
export const isInside = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
