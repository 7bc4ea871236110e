// Requests as no well-behaved client sends them: any `Host`, any path, any headers and bodies.
import { request as httpRequest, type IncomingHttpHeaders, type RequestOptions } from 'node:http';
import { request as tlsRequest } from 'node:https';

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** `path` goes out as it is; `ca` for a certificate that we made. */
export const rawRequest = (
  url: string,
  options: RequestOptions & { ca?: string; body?: string | Buffer; servername?: string },
): Promise<RawAnswer> =>
  new Promise((resolve, reject) => {
    const { hostname, port, protocol } = new URL(url);
    const { body, ...wanted } = options;
    const send = protocol === 'https:' ? tlsRequest : httpRequest;
    const request = send({ agent: false, hostname, port, ...wanted }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(pieces),
        }),
      );
    });
    request.on('error', reject);
    request.end(body);
  });
