// Defines the files that a person gives to a thread.

/**
 * A file, or its bytes. `trusted`: the person vouches for the content, so it does not carry `untrusted`. `paste`: text
 * that the person pasted. It carries `untrusted`, unless they vouch for it. No attachment counts as said by a person.
 */
export type Attachment =
  | { readonly path: string; readonly trusted?: boolean }
  | {
      readonly data: Uint8Array;
      readonly name: string;
      readonly mime?: string;
      readonly trusted?: boolean;
      readonly paste?: boolean;
    };
