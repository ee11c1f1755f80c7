import asyncio

from broker_core.server.client_mute import ClientMute


def test_it_ends_after_the_longest_of_its_times():
    async def story():
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        mute = ClientMute(loop, ended.set)
        assert not mute.is_on
        begun = loop.time()
        mute.begin(60)
        mute.begin(5)
        assert mute.is_on
        await ended.wait()
        assert not mute.is_on
        assert loop.time() - begun >= 0.055  # the loop's clock has a resolution

    asyncio.run(story())


def test_a_cancelled_one_calls_nobody():
    async def story():
        ended = asyncio.Event()
        mute = ClientMute(asyncio.get_running_loop(), ended.set)
        mute.begin(1)
        mute.cancel()
        await asyncio.sleep(0.01)
        assert not ended.is_set()

    asyncio.run(story())
