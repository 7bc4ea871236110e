// `POST uploads`: keeps files for a start or a resume that names them. They stay in memory, because most are used at
// once. The bytes are never parsed here: the thread that gets them decides about their type.
import { randomUUID } from 'node:crypto';
import { type Clock, fail, ok } from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import type { Context } from 'hono';
import { answer } from '../answer.ts';
import type { AddRoutes, ApiEnv, Uploads } from '../context.ts';
import { needs } from '../roles.ts';

const MIB = 1024 * 1024;
/** Largest file, and the unused files of one person. */
const [MAX_FILE, MAX_UNUSED, LIFETIME_MS] = [16 * MIB, 64 * MIB, 60 * 60 * 1000];

interface Upload {
  readonly id: string;
  readonly owner: string;
  readonly name: string;
  readonly size: number;
  readonly at: number;
  /** Absent while the body of the request arrives. */
  data?: Uint8Array;
}

export function createUploads({ monotonic }: Pick<Clock, 'monotonic'>): Uploads {
  const files = new Map<string, Upload>();
  function dropOld(): void {
    for (const [id, { at }] of files) if (monotonic() - at > LIFETIME_MS) files.delete(id);
  }
  return {
    begin(owner, name, size) {
      dropOld();
      const unused = [...files.values()].filter((file) => file.owner === owner);
      const sum = unused.reduce((all, file) => all + file.size, size);
      if (sum > MAX_UNUSED) {
        const message = `the unused uploads of one person can have at most ${MAX_UNUSED} bytes`;
        return fail('quota_exceeded', message, { max: MAX_UNUSED });
      }
      const file: Upload = { id: randomUUID(), owner, name, size, at: monotonic() };
      files.set(file.id, file);
      return ok(file);
    },
    find(list, { who, role }) {
      dropOld();
      const found: NonNullable<RunRequest['attach']>[number][] = [];
      for (const { upload, ...how } of list) {
        const file = files.get(upload);
        if (file?.owner !== who || !file.data) {
          return fail('not_found', `upload \`${upload}\` not found; upload the file again`);
        }
        if (how.trusted && role !== 'approve') {
          return fail('permission_denied', 'role `approve` is required to vouch for a file');
        }
        found.push({ name: file.name, data: file.data, ...how });
      }
      return ok(found);
    },
    drop(ids) {
      for (const id of ids) files.delete(id);
    },
  };
}

/** Reads exactly the declared number of bytes. `undefined`: the body had another length. */
async function readBytes({ req }: Context<ApiEnv>, size: number): Promise<Uint8Array | undefined> {
  const data = Buffer.alloc(size);
  let length = 0;
  for await (const piece of req.raw.body ?? []) {
    if (length + piece.length > size) return undefined;
    data.set(piece, length);
    length += piece.length;
  }
  return length === size ? data : undefined;
}

export const addUploadRoutes: AddRoutes = (api, { uploads }) => {
  api.post('/uploads', needs('steer'), async (context) => {
    const { req } = context;
    const length = req.header('content-length');
    if (!/^\d{1,12}$/.test(length ?? '')) {
      return answer(context, fail('length_required', '`content-length` is required'));
    }
    const size = Number(length);
    if (size > MAX_FILE) {
      const message = `an upload can have at most ${MAX_FILE} bytes`;
      return answer(context, fail('request_too_large', message, { max: MAX_FILE, size }));
    }
    const name = (req.query('name') ?? '').slice(0, 200) || 'file';
    const file = uploads.begin(context.get('asker').who, name, size);
    if (!file.ok) return answer(context, file);
    const { id } = file.output;
    const data = await readBytes(context, size).catch(() => undefined);
    if (data) {
      file.output.data = data;
      return answer(context, ok({ upload: id, bytes: size }));
    }
    uploads.drop([id]);
    return answer(context, fail('invalid_input', 'the body must have the declared length'));
  });
};
