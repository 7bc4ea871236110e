/** One place that a figure counts, in one package or in several. `count` is 1 unless it is given. */
export interface Place {
  readonly package?: string;
  readonly packages?: readonly string[];
  readonly text: string;
  readonly count?: number;
}

export interface Figure {
  readonly id: string;
  readonly name: string;
  readonly target?: string;
  /** The figure is printed and has no limit. */
  readonly isPrinted?: boolean;
  readonly places: readonly Place[];
}

interface Name {
  readonly local: string;
  readonly name: string;
  readonly isType?: boolean;
}

/** `target` is a path in the checkout. It is absent for a dependency. */
export interface SourceImport {
  readonly specifier: string;
  readonly target?: string;
  readonly isType: boolean;
  readonly names: readonly Name[];
  readonly line: number;
}

/** A name that is passed on has the `target` it comes from and its name there (`inner`). */
export interface SourceExport {
  readonly name: string;
  readonly line: number;
  readonly target?: string;
  readonly inner?: string;
}

export interface Source {
  readonly path: string;
  readonly package: string;
  readonly text: string;
  readonly imports: readonly SourceImport[];
  readonly exports: readonly SourceExport[];
}

export interface Sources {
  readonly files: readonly Source[];
  readonly byPath: ReadonlyMap<string, Source>;
  readonly packages: readonly string[];
}

/** Follows a name that is passed on to the file that declares it. The last entry is the declaration. */
export function wayToDeclaration(
  byPath: ReadonlyMap<string, { readonly exports: readonly SourceExport[] }>,
  path: string,
  name: string,
): { path: string; name: string }[];
export function readSources(root: string): Sources;
export function measure(sources: Sources): { figures: Figure[] };
export function modulesLoaded(root: string): Figure;
export function total(figure: Pick<Figure, 'places'>): number;
export function inPackage(figure: Pick<Figure, 'places'>, name: string): number;

/** A run of comment lines. `isTop`: it starts at the margin. */
export interface Comment {
  readonly path: string;
  readonly package: string;
  readonly line: number;
  readonly lines: readonly string[];
  readonly isDoc: boolean;
  readonly isTop: boolean;
}
export function commentsOf(source: Source): Comment[];
