// The worker that all tabs of this server share: their sessions come over one connection, because a browser has six for all tabs.

import { Hub } from "./stream.js";

const hubs = new Map(); // by token: a tab gets what its own caller may read

self.onconnect = ({ ports: [port] }) => {
  let leave = () => {};
  port.onmessage = ({ data }) => {
    leave();
    leave = () => {};
    if (!data) return;
    const hub = hubs.get(data.token) ?? new Hub(data.token);
    hubs.set(data.token, hub);
    const end = hub.add({ ...data, tell: (what) => port.postMessage(what) });
    leave = () => {
      end();
      if (!hub.size) hubs.delete(data.token);
    };
  };
  port.onclose = () => leave(); // the tab is gone, and did not say so
};
