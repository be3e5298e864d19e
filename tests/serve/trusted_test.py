"""A server with keys loads only plans that are signed with one of them."""
import shutil
import time

import served
from served import Plans, Server, floats, run


class Trusted(Plans):
    plans = ("rows", "slow")

    def test_only_signed_plans_are_served(self):
        folder = self.folder("rows", "slow")
        rondo = served.OPTIONS.rondo
        keys = folder.parent / f"{folder.name}.keys"
        keys.mkdir()
        self.addCleanup(shutil.rmtree, keys)
        run(rondo, "sign", "--new-key", keys / "ours")
        plan = folder / "rows/1/model.rondo"
        run(rondo, "sign", plan, "--key", keys / "ours")
        with Server(folder, "--key", keys / "ours.pub", "--poll", 0.1) as server:
            self.assertEqual(server.infer("rows", floats("x", 2))[0], 200)
            self.assertNotEqual(server.say("GET", "/v2/models/slow/ready")[0], 200)
            # A plan that is signed later is loaded then.
            run(rondo, "sign", folder / "slow/1/model.rondo", "--key", keys / "ours")
            ends = time.monotonic() + 20
            while server.say("GET", "/v2/models/slow/ready")[0] != 200:
                self.assertLess(time.monotonic(), ends)
                time.sleep(0.05)
        self.assertIn("slow/1/model.rondo: it is not signed", server.log)


if __name__ == "__main__":
    served.main()
