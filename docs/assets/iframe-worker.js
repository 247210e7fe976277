// SPDX-FileCopyrightText: 2026 The cluster_compute.session authors
// SPDX-License-Identifier: GPL-3.0-or-later

// A browser starts no worker for a page that is a file, and the search of the documentation is one. There it runs in a
// frame instead: same script, same messages. The theme's search looks for this name to find its own path.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      const ready = new Promise((resolve) => { script.onload = resolve; });
      inside.document.body.append(script);
      this.postMessage = (data) => ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
      this.terminate = () => frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
